//! A server with a certificate of a private authority, which asks clients for theirs.

use tidemill_testkit::servers::{Certificates, Redis, RedisOptions, free_port};

use crate::work::works;

struct Server {
    certificates: Certificates,
    port: u16,
    _redis: Redis,
}

/// Starts a server that speaks TLS beside plain text, and asks clients for a certificate or not.
fn server(asks_clients: bool) -> Server {
    let (certificates, port) = (Certificates::new().unwrap(), free_port().unwrap());
    let (certificate, key) = certificates.pair("server");
    let shown = |path: std::path::PathBuf| path.display().to_string();
    let args = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", shown(certificate)),
        ("--tls-key-file", shown(key)),
        ("--tls-ca-cert-file", shown(certificates.authority())),
        ("--tls-auth-clients", if asks_clients { "yes" } else { "no" }.to_owned()),
    ];
    let args = args.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    let redis = Redis::with(RedisOptions { args, ..RedisOptions::default() }).unwrap();
    Server { certificates, port, _redis: redis }
}

impl Server {
    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    fn url_with_authority(&self) -> String {
        format!("{}?ssl_ca_certs={}", self.url(), self.certificates.authority().display())
    }

    fn url_with_certificate(&self) -> String {
        let (certificate, key) = self.certificates.pair("client");
        let url = self.url_with_authority();
        format!("{url}&ssl_certfile={}&ssl_keyfile={}", certificate.display(), key.display())
    }
}

async fn refusal(url: &str) -> String {
    let error = tidemill::connect(url).await.err().unwrap();
    assert!(!error.is_transient(), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_named_in_the_url() {
    let server = server(false);
    works(&server.url_with_authority()).await;
    let error = refusal(&server.url()).await;
    assert!(error.contains("certificate is not trusted") && error.contains("ssl_ca_certs"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate() {
    let server = server(true);
    works(&server.url_with_certificate()).await;
    let error = refusal(&server.url_with_authority()).await;
    assert!(error.contains("ssl_certfile") && error.contains("ssl_keyfile"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_go_over_tls_as_well() {
    let server = server(true);
    let connector = tidemill::connector("sqlite::memory:").unwrap();
    let mill = connector.wake(server.url_with_certificate().as_str()).unwrap().connect().await.unwrap();
    let findings = mill.store().checkup().await.unwrap().findings;
    let wake_ups: Vec<_> = findings.iter().filter(|finding| finding.subject == "wake-ups").collect();
    assert!(wake_ups.iter().any(|finding| finding.message.contains("which answers")), "{findings:?}");
}
