//! The state that all parts of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidemill_core::store::Fleet;
use tidemill_core::{HolderId, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Gateway;
use super::access::AccessControl;
use super::acquire::POLL_INTERVAL;
use super::metrics::Metrics;
use super::options::GatewayOptions;
use crate::lease::{LeaseClient, LeaseClientOptions};

/// The shared state.
#[derive(Debug)]
pub(crate) struct GatewayShared {
    pub(crate) store: Arc<dyn Store>,
    /// This gateway's id in the store.
    pub(crate) holder: HolderId,
    pub(crate) access: AccessControl,
    pub(crate) options: GatewayOptions,
    pub(crate) leases: Arc<LeaseClient>,
    pub(crate) metrics: Metrics,
    /// Cancelled when no new client is admitted.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all connections must close.
    pub(crate) closing: CancellationToken,
    /// Clients that have a browser or wait for one.
    pub(crate) browser_clients: TaskTracker,
}

impl GatewayShared {
    pub(crate) fn new(gateway: Gateway) -> Arc<Self> {
        let leases = LeaseClientOptions {
            lease: gateway.options.lease.duration,
            poll_interval: POLL_INTERVAL,
            rechecks_everything: true,
            starts_reachable: false,
        };
        Arc::new(Self {
            leases: LeaseClient::new(gateway.store.clone(), leases),
            store: gateway.store,
            holder: generate_holder_id(),
            access: gateway.access,
            options: gateway.options,
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            closing: CancellationToken::new(),
            browser_clients: TaskTracker::new(),
        })
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        &*self.store
    }
}

/// A process may run several gateways; the index distinguishes them.
fn generate_holder_id() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let (host, index) = (rustix::system::uname(), INDEX.fetch_add(1, Ordering::Relaxed));
    HolderId::from_process(&host.nodename().to_string_lossy(), std::process::id(), index)
}
