//! What all parts of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tidemill_core::store::Fleet;
use tidemill_core::{Error, HolderId, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Gateway;
use super::door::Door;
use super::holdings::Holdings;
use super::line::Lines;
use super::metrics::Metrics;
use super::options::Options;

/// What all parts share.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    /// Who we are to the store.
    pub(crate) holder: HolderId,
    pub(crate) door: Door,
    pub(crate) options: Options,
    pub(crate) holdings: Holdings,
    pub(crate) lines: Lines,
    pub(crate) metrics: Metrics,
    /// Nobody new is let in.
    pub(crate) stopping: CancellationToken,
    /// Everybody has to go.
    pub(crate) closing: CancellationToken,
    /// Clients that have a browser or wait for one.
    pub(crate) visits: TaskTracker,
    /// Whether the store answered when it was last asked.
    reachable: AtomicBool,
}

impl Desk {
    pub(crate) fn new(gateway: Gateway) -> Arc<Self> {
        Arc::new(Self {
            store: gateway.store,
            holder: name_this_gateway(),
            door: gateway.door,
            options: gateway.options,
            holdings: Holdings::default(),
            lines: Lines::default(),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            closing: CancellationToken::new(),
            visits: TaskTracker::new(),
            reachable: AtomicBool::new(false),
        })
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        self.store.fleet()
    }

    /// Whether there is a store to lease from, by what it last said.
    pub(crate) fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    /// Takes note of whether the store answered; says so once when that changes.
    pub(crate) fn heard<T>(&self, answer: &Result<T, Error>) {
        let away = answer.as_ref().err().filter(|error| error.is_transient());
        let before = self.reachable.swap(away.is_none(), Ordering::Relaxed);
        match away {
            Some(error) if before => {
                tracing::warn!(error = error.full_message(), "the store is away; sessions go on")
            }
            None if !before => tracing::info!("the store is there"),
            _ => {}
        }
    }
}

/// A process may run several gateways; the index tells them apart.
fn name_this_gateway() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let (host, index) = (rustix::system::uname(), INDEX.fetch_add(1, Ordering::Relaxed));
    HolderId::from_process(&host.nodename().to_string_lossy(), std::process::id(), index)
}
