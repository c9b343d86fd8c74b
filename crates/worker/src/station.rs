//! What all parts of one worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_core::lease::heartbeat;
use tidemill_core::store::runs::PruneRunsParams;
use tidemill_core::{Client, HolderId, Queue, Store};
use tokio::sync::broadcast;

use crate::event::Event;
use crate::failure_log::FailureLog;
use crate::lane::Lane;
use crate::leases::Leases;
use crate::outage::Outage;
use crate::outbox::Outbox;

/// How a worker behaves, as far as a user may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// For how long jobs are claimed.
    pub(crate) lease: Duration,
    /// How long running handlers may go on when the worker shuts down.
    pub(crate) shutdown_grace: Duration,
    /// How long a handler that was cancelled may take to wind up.
    pub(crate) cancel_grace: Duration,
    /// How long a claim waits for work, if somebody said so.
    pub(crate) block: Option<Duration>,
    /// How many ended runs of each workflow are kept at most, and how young one is that is kept all the same.
    pub(crate) ended_runs: PruneRunsParams,
    /// Whether it keeps out of the fleet.
    pub(crate) anonymous: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(25),
            cancel_grace: Duration::from_secs(5),
            block: None,
            ended_runs: PruneRunsParams { most: 10_000, min_age: Duration::from_secs(60 * 60) },
            anonymous: false,
        }
    }
}

/// A worker's place of work: its store, its name there, and what is in its hands.
pub(crate) struct Station {
    pub(crate) store: Arc<dyn Store>,
    /// The same store, for handlers that make jobs of their own.
    pub(crate) client: Client,
    /// Who this worker is to the store.
    pub(crate) worker: HolderId,
    pub(crate) manner: Manner,
    /// One per queue.
    pub(crate) lanes: Vec<Arc<Lane>>,
    /// Every lease that must be kept alive.
    pub(crate) leases: Leases,
    /// Jobs that have ended and wait to be settled.
    pub(crate) outbox: Outbox,
    /// Says why attempts failed.
    pub(crate) failure_log: FailureLog,
    /// How many parts of this worker cannot reach the store.
    outages: Arc<AtomicUsize>,
    /// Only there if somebody listens.
    pub(crate) events: Option<broadcast::Sender<Event>>,
}

impl Station {
    pub(crate) fn new(
        client: Client,
        manner: Manner,
        lanes: Vec<Arc<Lane>>,
        events: Option<broadcast::Sender<Event>>,
    ) -> Self {
        let (leases, outbox) = (Leases::default(), Outbox::default());
        Self {
            store: client.store().clone(),
            client,
            worker: name_this_worker(),
            manner,
            lanes,
            leases,
            outbox,
            failure_log: FailureLog::default(),
            outages: Arc::default(),
            events,
        }
    }

    /// The machine it runs on.
    pub(crate) fn host(&self) -> &str {
        self.worker.as_str().split(':').next().unwrap_or_default()
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.lanes.iter().map(|lane| lane.queue.clone()).collect()
    }

    /// Failures of one part of this worker, which tries `what`. An outage of the store is logged once for all parts.
    pub(crate) fn outage(&self, what: impl Into<String>) -> Outage {
        Outage::sharing(what, self.outages.clone())
    }

    /// How often leases are extended.
    pub(crate) fn beat(&self) -> Duration {
        heartbeat(self.manner.lease)
    }
}

/// A process may run several workers; the index tells them apart.
fn name_this_worker() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let hostname = rustix::system::uname();
    let index = INDEX.fetch_add(1, Ordering::Relaxed);
    HolderId::of_process(&hostname.nodename().to_string_lossy(), std::process::id(), index)
}
