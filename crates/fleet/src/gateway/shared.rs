//! The state that all parts of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tidemill_core::store::Fleet;
use tidemill_core::{Error, HolderId, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Gateway;
use super::access::AccessControl;
use super::metrics::Metrics;
use super::options::GatewayOptions;
use super::sessions::Sessions;
use super::waiters::BrowserWaiters;

/// The shared state.
#[derive(Debug)]
pub(crate) struct GatewayShared {
    pub(crate) store: Arc<dyn Store>,
    /// This gateway's id in the store.
    pub(crate) holder: HolderId,
    pub(crate) access: AccessControl,
    pub(crate) options: GatewayOptions,
    pub(crate) sessions: Sessions,
    pub(crate) waiters: BrowserWaiters,
    pub(crate) metrics: Metrics,
    /// Cancelled when no new client is admitted.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all connections must close.
    pub(crate) closing: CancellationToken,
    /// Clients that have a browser or wait for one.
    pub(crate) browser_clients: TaskTracker,
    /// Whether the last store call was answered.
    store_reachable: AtomicBool,
}

impl GatewayShared {
    pub(crate) fn new(gateway: Gateway) -> Arc<Self> {
        Arc::new(Self {
            store: gateway.store,
            holder: generate_holder_id(),
            access: gateway.access,
            options: gateway.options,
            sessions: Sessions::default(),
            waiters: BrowserWaiters::default(),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            closing: CancellationToken::new(),
            browser_clients: TaskTracker::new(),
            store_reachable: AtomicBool::new(false),
        })
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        self.store.fleet()
    }

    /// Whether the last store call was answered.
    pub(crate) fn is_store_reachable(&self) -> bool {
        self.store_reachable.load(Ordering::Relaxed)
    }

    /// Records whether the store answered, and logs a change once.
    pub(crate) fn record_store_result<T>(&self, result: &Result<T, Error>) {
        let unavailable = result.as_ref().err().filter(|error| error.is_transient());
        let was_reachable = self.store_reachable.swap(unavailable.is_none(), Ordering::Relaxed);
        match unavailable {
            Some(error) if was_reachable => {
                tracing::warn!(error = error.full_message(), "the store is unavailable; sessions continue")
            }
            None if !was_reachable => tracing::info!("the store is available"),
            _ => {}
        }
    }
}

/// A process may run several gateways; the index distinguishes them.
fn generate_holder_id() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let (host, index) = (rustix::system::uname(), INDEX.fetch_add(1, Ordering::Relaxed));
    HolderId::from_process(&host.nodename().to_string_lossy(), std::process::id(), index)
}
