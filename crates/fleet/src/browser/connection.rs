//! A connection to a leased browser, with its own browser context behind its own proxy.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use tokio::io::{AsyncReadExt, DuplexStream, Join};
use tokio::net::lookup_host;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use url::{Host, Url};

use super::browsers::Browsers;
#[cfg(feature = "chromiumoxide")]
use super::chromiumoxide_browser::ChromiumoxideConnector;
use super::egress::{BlockedLog, EgressProxy, ProxyClients};
use super::error::ConnectError;
use super::frame_limit::{FrameLimit, OversizedLog};
use crate::cdp::{CdpConnection, CdpDriver, CreateBrowserContext, SetDownloadBehavior};
use crate::net::{Endpoint, PeerStream, UpgradeResponse, dial};

/// How long it may take to connect and to create a context.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many bytes wait between the frame limit and the client.
const PIPE_BYTES: usize = 64 << 10;

/// A connected browser. Dropping it closes the connection, and the browser discards the context.
pub(super) struct BrowserConnection {
    pub(super) cdp: CdpConnection,
    /// The id of the job's browser context.
    pub(super) context: String,
    pub(super) blocked: Arc<BlockedLog>,
    pub(super) oversized: Arc<OversizedLog>,
    #[cfg(feature = "chromiumoxide")]
    pub(super) chromiumoxide: ChromiumoxideConnector,
    _driver: AbortOnDropHandle<()>,
    /// Dropped after the connection, so that no page sees its proxy disappear.
    proxy: Option<EgressProxy>,
}

impl BrowserConnection {
    /// Connects to the browser at `endpoint` until `lost` is cancelled.
    pub(super) async fn open(
        endpoint: &str,
        browsers: &Browsers,
        lost: CancellationToken,
    ) -> Result<Self, ConnectError> {
        let connect = async {
            let proxy = if browsers.is_proxied { Some(open_proxy(endpoint, browsers).await?) } else { None };
            let oversized = Arc::<OversizedLog>::default();
            let limit = FrameLimit { max_bytes: browsers.max_message_bytes(), oversized: oversized.clone() };
            #[cfg(feature = "chromiumoxide")]
            let chromiumoxide = ChromiumoxideConnector::new(endpoint, &limit, &lost);
            let (cdp, pipe) = connect(endpoint, limit).await?;
            let driver = AbortOnDropHandle::new(tokio::spawn(pipe.run(lost)));
            let context = create_context(&cdp, proxy.as_ref(), browsers).await?;
            let blocked = proxy.as_ref().map(|proxy| proxy.blocked().clone()).unwrap_or_default();
            Ok(Self {
                cdp,
                context,
                blocked,
                oversized,
                #[cfg(feature = "chromiumoxide")]
                chromiumoxide,
                _driver: driver,
                proxy,
            })
        };
        match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectError::Failed(format!("it gave no page within {CONNECT_TIMEOUT:?}"))),
        }
    }
}

impl BrowserConnection {
    /// Whether its context uses an egress proxy.
    pub(super) fn is_proxied(&self) -> bool {
        self.proxy.is_some()
    }
}

/// What runs for a connection: the client's driver, and the frame limit before it.
struct LimitedDriver {
    driver: CdpDriver<Join<DuplexStream, OwnedWriteHalf>>,
    limit: FrameLimit,
    from_browser: PeerReader,
    to_client: DuplexStream,
}

type PeerReader = tokio::io::Chain<std::io::Cursor<bytes::Bytes>, tokio::net::tcp::OwnedReadHalf>;

impl LimitedDriver {
    async fn run(self, lost: CancellationToken) {
        let copy = async {
            if let Err(error) = self.limit.copy_messages(self.from_browser, self.to_client).await {
                debug!("the connection to a browser failed: {error}");
            }
            // The driver ends when it has read what was copied.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.driver.run(lost) => {}
            () = copy => {}
        }
    }
}

/// Connects a client to the browser at `endpoint`.
async fn connect(endpoint: &str, limit: FrameLimit) -> Result<(CdpConnection, LimitedDriver), String> {
    let key = generate_key();
    let mut headers = HeaderMap::new();
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key).map_err(|error| error.to_string())?);
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    let response = dial_browser(endpoint, &headers).await?;
    let accepted = response.headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err("it does not speak WebSocket".to_owned());
    }
    let PeerStream { stream, read_ahead } = response.stream;
    let (from_browser, to_browser) = stream.into_split();
    let (from_limit, to_client) = tokio::io::duplex(PIPE_BYTES);
    let (cdp, driver) = CdpConnection::new(tokio::io::join(from_limit, to_browser)).await;
    let from_browser = std::io::Cursor::new(read_ahead).chain(from_browser);
    Ok((cdp, LimitedDriver { driver, limit, from_browser, to_client }))
}

/// Sends a WebSocket handshake to the browser at `endpoint`.
pub(super) async fn dial_browser(endpoint: &str, headers: &HeaderMap) -> Result<UpgradeResponse, String> {
    let endpoint = Endpoint::parse(endpoint)
        .ok_or_else(|| format!("its address is wrong: {endpoint:?} is no plain WebSocket"))?;
    dial(&endpoint, headers, CONNECT_TIMEOUT).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    })
}

/// Creates a browser context that shares nothing with other jobs and is discarded on disconnect.
async fn create_context(
    cdp: &CdpConnection,
    proxy: Option<&EgressProxy>,
    browsers: &Browsers,
) -> Result<String, String> {
    let proxy_server = proxy.map(|proxy| {
        let host = browsers.advertise.clone().unwrap_or_else(|| browsers.listen.to_string());
        proxy_url(&host, proxy.port())
    });
    let create = CreateBrowserContext {
        dispose_on_detach: true,
        proxy_server: proxy_server.as_deref(),
        // Without the bypass list, requests to loopback would not use the proxy.
        proxy_bypass_list: proxy.map(|_| "<-loopback>"),
    };
    let created = cdp.call(None, &create, CONNECT_TIMEOUT).await.map_err(|error| error.to_string())?;
    let context = created.browser_context_id;
    let no_downloads = SetDownloadBehavior { behavior: "deny", browser_context_id: Some(&context) };
    cdp.call(None, &no_downloads, CONNECT_TIMEOUT).await.map_err(|error| error.to_string())?;
    Ok(context)
}

/// The proxy's URL. IPv6 addresses need brackets.
fn proxy_url(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("http://[{address}]:{port}"),
        Err(_) => format!("http://{host}:{port}"),
    }
}

/// Opens a proxy that only the browser at `endpoint` can use.
async fn open_proxy(endpoint: &str, browsers: &Browsers) -> Result<EgressProxy, ConnectError> {
    let addresses = resolve_addresses(endpoint).await?;
    let peers =
        if browsers.listen.is_loopback() { ProxyClients::Local } else { ProxyClients::At(addresses.clone()) };
    if browsers.listen.is_loopback() && !addresses.iter().all(IpAddr::is_loopback) {
        return Err(ConnectError::OtherMachine);
    }
    let policy = Arc::new(browsers.policy.clone());
    EgressProxy::open(browsers.listen, policy, peers)
        .await
        .map_err(|error| ConnectError::ProxyUnavailable(error.to_string()))
}

/// Whether the browser at `endpoint` cannot reach a proxy on this machine's loopback. Answered
/// without DNS, so a name counts as local.
pub(super) fn is_on_other_machine(endpoint: &str) -> bool {
    match Url::parse(endpoint).ok().as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => !address.is_loopback(),
        Some(Host::Ipv6(address)) => !address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

/// The addresses of the machine at `endpoint`.
async fn resolve_addresses(endpoint: &str) -> Result<Vec<IpAddr>, String> {
    let url = Url::parse(endpoint).map_err(|error| format!("its address is wrong: {error}"))?;
    let port = url.port_or_known_default().unwrap_or(80);
    match url.host().ok_or("its address names no host")? {
        Host::Ipv4(address) => Ok(vec![address.into()]),
        Host::Ipv6(address) => Ok(vec![address.into()]),
        Host::Domain(name) => match lookup_host((name, port)).await {
            Ok(found) => Ok(found.map(|address| address.ip()).collect()),
            Err(error) => Err(format!("{name}: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_version_6_wears_brackets_in_the_proxys_url() {
        assert_eq!(proxy_url("fd00::5", 81), "http://[fd00::5]:81");
        assert_eq!(proxy_url("10.0.0.5", 81), "http://10.0.0.5:81");
        assert_eq!(proxy_url("worker-1", 81), "http://worker-1:81");
        assert_eq!(proxy_url("[fd00::5]", 81), "http://[fd00::5]:81");
    }

    #[test]
    fn an_address_that_is_not_loopback_is_elsewhere_and_a_name_may_be_here() {
        for endpoint in ["ws://10.0.0.5:9222/", "ws://[fd00::5]:9222/devtools"] {
            assert!(is_on_other_machine(endpoint), "{endpoint}");
        }
        for endpoint in ["ws://127.0.0.1:9222/", "ws://[::1]:9222/", "ws://localhost:9222/", "nonsense"] {
            assert!(!is_on_other_machine(endpoint), "{endpoint}");
        }
    }
}
