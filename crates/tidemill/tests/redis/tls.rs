//! A server with a certificate of a private authority, which requires client certificates.

use tidemill_testkit::servers::{Certificates, Redis, RedisCluster, RedisOptions, RedisSentinel, RedisTls};

use crate::work::works;

/// A server that speaks TLS beside plain text, and asks clients for a certificate or not.
fn options(certificates: &Certificates, requires_client_certificate: bool) -> RedisOptions {
    let (authority, pair) = (certificates.authority(), certificates.pair("server"));
    let tls = Some(RedisTls { authority, pair, requires_client_certificate });
    RedisOptions { tls, ..RedisOptions::default() }
}

fn url(redis: &Redis) -> String {
    format!("rediss://127.0.0.1:{}", redis.tls_port().unwrap())
}

fn with_authority(url: &str, certificates: &Certificates) -> String {
    format!("{url}?ssl_ca_certs={}", certificates.authority().display())
}

fn with_certificate(url: &str, certificates: &Certificates) -> String {
    let (certificate, key) = certificates.pair("client");
    let url = with_authority(url, certificates);
    format!("{url}&ssl_certfile={}&ssl_keyfile={}", certificate.display(), key.display())
}

async fn refusal(url: &str) -> String {
    let error = tidemill::connect(url).await.err().unwrap();
    assert!(!error.is_transient(), "{error}");
    error.to_string()
}

/// Whether wake-ups of another store arrive through this server.
async fn wakes(url: &str) {
    let connector = tidemill::ClientBuilder::new("sqlite::memory:");
    let client = connector.wake(url).connect().await.unwrap();
    let findings = client.store().checkup().await.unwrap().findings;
    let wake_ups: Vec<_> = findings.iter().filter(|finding| finding.subject == "wake-ups").collect();
    assert!(wake_ups.iter().any(|finding| finding.message.contains("which answers")), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_named_in_the_url() {
    let certificates = Certificates::new().unwrap();
    let redis = Redis::with(options(&certificates, false)).unwrap();
    works(&with_authority(&url(&redis), &certificates)).await;
    let error = refusal(&url(&redis)).await;
    assert!(error.contains("certificate is not trusted") && error.contains("ssl_ca_certs"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate() {
    let certificates = Certificates::new().unwrap();
    let redis = Redis::with(options(&certificates, true)).unwrap();
    let with_certificate = with_certificate(&url(&redis), &certificates);
    works(&with_certificate).await;
    wakes(&with_certificate).await;
    let error = refusal(&with_authority(&url(&redis), &certificates)).await;
    assert!(error.contains("ssl_certfile") && error.contains("ssl_keyfile"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_of_a_cluster_is_reached_with_the_same_certificates() {
    let certificates = Certificates::new().unwrap();
    let cluster = RedisCluster::with(options(&certificates, true)).unwrap();
    let url = with_certificate(&cluster.url(), &certificates);
    works(&url).await;
    wakes(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_both_masters_are_reached_with_the_same_certificates() {
    let certificates = Certificates::new().unwrap();
    let sentinel = RedisSentinel::with(options(&certificates, true), None).unwrap();
    let url = with_certificate(&sentinel.url(), &certificates);
    works(&url).await;
    wakes(&url).await;
    sentinel.servers()[0].kill().unwrap();
    sentinel.wait_for_failover().unwrap();
    works(&url).await;
}
