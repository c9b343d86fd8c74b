//! A connection to a leased browser, with a context of its own behind a proxy of its own.

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
use super::failure::Unopened;
use super::guard::{Ledger, Peers, Proxy};
use super::sieve::{LeftOut, Sieve};
use super::sluice::{Passage, Sluice};

/// How long a browser may take to be connected to and to give a context.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest a browser may take over one command. Jobs have shorter times of their own.
const COMMAND: Duration = Duration::from_secs(600);

/// An open browser. Dropping it closes the connection, and the browser throws the context away with everything in it.
pub(super) struct Link {
    pub(super) cdp: Cdp,
    pub(super) context: BrowserContextId,
    pub(super) ledger: Arc<Ledger>,
    pub(super) left_out: Arc<LeftOut>,
    _driver: AbortOnDropHandle<()>,
    /// Cut after the connection, so that no page sees its proxy go.
    proxy: Option<Proxy>,
}

impl Link {
    /// Connects to the browser at `endpoint`, until `lost`.
    pub(super) async fn open(
        endpoint: &str,
        browsers: &Browsers,
        lost: CancellationToken,
    ) -> Result<Self, Unopened> {
        let opening = async {
            let proxy = if browsers.guarded { Some(guard(endpoint, browsers).await?) } else { None };
            let config = HandlerConfig {
                ignore_https_errors: false,
                request_timeout: COMMAND,
                viewport: None,
                ..HandlerConfig::default()
            };
            let (sluice, left_out) =
                (Sluice::open().await.map_err(|error| error.to_string())?, Arc::<LeftOut>::default());
            let sieve = Sieve { most: browsers.largest_message(), left_out: left_out.clone() };
            let here = sluice.endpoint();
            let connect =
                async { Cdp::connect_with_config(here, config).await.map_err(|error| error.to_string()) };
            // First the one that knows better what is wrong.
            let (passage, (cdp, handler)) =
                tokio::try_join!(biased; sluice.lead(endpoint, PATIENCE, sieve), connect)?;
            let driver = AbortOnDropHandle::new(tokio::spawn(async move {
                lost.run_until_cancelled_owned(drive(handler, passage)).await;
            }));
            let context = context(&cdp, proxy.as_ref(), browsers).await?;
            let ledger = proxy.as_ref().map(|proxy| proxy.ledger().clone()).unwrap_or_default();
            Ok(Self { cdp, context, ledger, left_out, _driver: driver, proxy })
        };
        match timeout(PATIENCE, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Unopened::Broken(format!("it gave no page within {PATIENCE:?}"))),
        }
    }
}

impl Link {
    /// Whether its context goes through a proxy.
    pub(super) fn is_guarded(&self) -> bool {
        self.proxy.is_some()
    }
}

/// Passes messages between the jobs' code and the browser until the browser is gone. Each of the two ends with the other.
async fn drive(handler: Handler, passage: Passage) {
    let pass = async {
        if let Err(error) = passage.run().await {
            debug!("the connection to a browser broke: {error}");
        }
    };
    tokio::join!(handle(handler), pass);
}

async fn handle(mut handler: Handler) {
    while let Some(event) = handler.next().await {
        if let Err(error) = event {
            debug!("the connection to a browser ended: {error}");
            return;
        }
    }
}

/// A context of its own: nothing of earlier jobs is in it, and nothing of it stays.
async fn context(cdp: &Cdp, proxy: Option<&Proxy>, browsers: &Browsers) -> Result<BrowserContextId, String> {
    let mut params = CreateBrowserContextParams::builder().dispose_on_detach(true);
    if let Some(proxy) = proxy {
        let host = browsers.advertise.clone().unwrap_or_else(|| browsers.listen.to_string());
        // Without the bypass list, requests to this machine would go past the proxy.
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

/// Where a proxy is. An address of version 6 wears brackets in a URL.
fn proxy_url(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("http://[{address}]:{port}"),
        Err(_) => format!("http://{host}:{port}"),
    }
}

/// A proxy that the browser at `endpoint`, and nobody else, can use.
async fn guard(endpoint: &str, browsers: &Browsers) -> Result<Proxy, Unopened> {
    let addresses = addresses(endpoint).await?;
    let peers = if browsers.listen.is_loopback() { Peers::Local } else { Peers::At(addresses.clone()) };
    if browsers.listen.is_loopback() && !addresses.iter().all(IpAddr::is_loopback) {
        return Err(Unopened::Elsewhere);
    }
    let reach = Arc::new(browsers.reach.clone());
    Proxy::open(browsers.listen, reach, peers).await.map_err(|error| Unopened::NoProxy(error.to_string()))
}

/// Whether the browser at `endpoint` cannot reach a proxy on this machine's loopback, as far as that can be said without
/// asking anybody: what a name stands for is known only when it is looked up.
pub(super) fn is_elsewhere(endpoint: &str) -> bool {
    match Url::parse(endpoint).ok().as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => !address.is_loopback(),
        Some(Host::Ipv6(address)) => !address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

/// The addresses of the machine at `endpoint`.
async fn addresses(endpoint: &str) -> Result<Vec<IpAddr>, String> {
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
            assert!(is_elsewhere(endpoint), "{endpoint}");
        }
        for endpoint in ["ws://127.0.0.1:9222/", "ws://[::1]:9222/", "ws://localhost:9222/", "nonsense"] {
            assert!(!is_elsewhere(endpoint), "{endpoint}");
        }
    }
}
