//! A connection to a leased browser, with its own browser context behind its own proxy.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use chromiumoxide::browser::Browser as Cdp;
use chromiumoxide::cdp::browser_protocol::browser::{
    BrowserContextId, SetDownloadBehaviorBehavior, SetDownloadBehaviorParams,
};
use chromiumoxide::cdp::browser_protocol::target::CreateBrowserContextParams;
use chromiumoxide::handler::{Handler, HandlerConfig};
use futures_util::StreamExt;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use url::{Host, Url};

use super::browsers::Browsers;
use super::egress::{BlockedLog, EgressProxy, ProxyClients};
use super::error::ConnectError;
use super::frame_limit::{FrameLimit, OversizedLog};
use super::relay::{Relay, RelayListener};

/// How long it may take to connect and to create a context.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest timeout of one command. Jobs have shorter timeouts.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// A connected browser. Dropping it closes the connection, and the browser discards the context.
pub(super) struct BrowserConnection {
    pub(super) cdp: Cdp,
    pub(super) context: BrowserContextId,
    pub(super) blocked: Arc<BlockedLog>,
    pub(super) oversized: Arc<OversizedLog>,
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
            let config = HandlerConfig {
                ignore_https_errors: false,
                request_timeout: COMMAND_TIMEOUT,
                viewport: None,
                ..HandlerConfig::default()
            };
            let (listener, oversized) = (
                RelayListener::open().await.map_err(|error| error.to_string())?,
                Arc::<OversizedLog>::default(),
            );
            let limit = FrameLimit { max_bytes: browsers.max_message_bytes(), oversized: oversized.clone() };
            let url = listener.endpoint();
            let connect_client =
                async { Cdp::connect_with_config(url, config).await.map_err(|error| error.to_string()) };
            // The first error wins, and the relay's error names the cause.
            let (relay, (cdp, handler)) =
                tokio::try_join!(biased; listener.connect(endpoint, CONNECT_TIMEOUT, limit), connect_client)?;
            let driver = AbortOnDropHandle::new(tokio::spawn(async move {
                lost.run_until_cancelled_owned(drive(handler, relay)).await;
            }));
            let context = create_context(&cdp, proxy.as_ref(), browsers).await?;
            let blocked = proxy.as_ref().map(|proxy| proxy.blocked().clone()).unwrap_or_default();
            Ok(Self { cdp, context, blocked, oversized, _driver: driver, proxy })
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

/// Relays messages between the CDP client and the browser until the browser is gone. Each of the
/// two ends with the other.
async fn drive(handler: Handler, relay: Relay) {
    let run_relay = async {
        if let Err(error) = relay.run().await {
            debug!("the relay to a browser failed: {error}");
        }
    };
    tokio::join!(run_handler(handler), run_relay);
}

async fn run_handler(mut handler: Handler) {
    while let Some(event) = handler.next().await {
        if let Err(error) = event {
            debug!("the connection to a browser ended: {error}");
            return;
        }
    }
}

/// Creates a browser context that shares nothing with other jobs and is discarded on disconnect.
async fn create_context(
    cdp: &Cdp,
    proxy: Option<&EgressProxy>,
    browsers: &Browsers,
) -> Result<BrowserContextId, String> {
    let mut params = CreateBrowserContextParams::builder().dispose_on_detach(true);
    if let Some(proxy) = proxy {
        let host = browsers.advertise.clone().unwrap_or_else(|| browsers.listen.to_string());
        // Without the bypass list, requests to loopback would not use the proxy.
        params = params.proxy_server(proxy_url(&host, proxy.port())).proxy_bypass_list("<-loopback>");
    }
    let context = cdp.create_browser_context(params.build()).await.map_err(|error| error.to_string())?;
    let no_downloads = SetDownloadBehaviorParams {
        behavior: SetDownloadBehaviorBehavior::Deny,
        browser_context_id: Some(context.clone()),
        download_path: None,
        events_enabled: None,
    };
    cdp.execute(no_downloads).await.map_err(|error| error.to_string())?;
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
