//! What all parts of one worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_core::lease::heartbeat;
use tidemill_core::{Client, HolderId, Queue, Store};
use tokio::sync::broadcast;

use crate::completer::queue::SettlementQueue;
use crate::config::Config;
use crate::event::Event;
use crate::failure_backoff::FailureBackoff;
use crate::failure_log::FailureLog;
use crate::leases::Leases;
use crate::queue_slots::QueueSlots;

/// A worker's place of work: its store, its name there, and what is in its hands.
pub(crate) struct WorkerShared {
    pub(crate) store: Arc<dyn Store>,
    /// The same store, for handlers that make jobs of their own.
    pub(crate) client: Client,
    /// Who this worker is to the store.
    pub(crate) worker: HolderId,
    pub(crate) config: Config,
    /// One per queue.
    pub(crate) queue_slots: Vec<Arc<QueueSlots>>,
    /// Every lease that must be kept alive.
    pub(crate) leases: Leases,
    /// Jobs that have ended and wait to be settled.
    pub(crate) settlement_queue: SettlementQueue,
    /// Says why attempts failed.
    pub(crate) failure_log: FailureLog,
    /// How many parts of this worker cannot reach the store.
    unavailable_parts: Arc<AtomicUsize>,
    /// Only there if somebody listens.
    pub(crate) events: Option<broadcast::Sender<Event>>,
}

impl WorkerShared {
    pub(crate) fn new(
        client: Client,
        config: Config,
        queue_slots: Vec<Arc<QueueSlots>>,
        events: Option<broadcast::Sender<Event>>,
    ) -> Self {
        let (leases, settlement_queue) = (Leases::default(), SettlementQueue::default());
        Self {
            store: client.store().clone(),
            client,
            worker: generate_holder_id(),
            config,
            queue_slots,
            leases,
            settlement_queue,
            failure_log: FailureLog::default(),
            unavailable_parts: Arc::default(),
            events,
        }
    }

    /// The machine it runs on.
    pub(crate) fn host(&self) -> &str {
        self.worker.as_str().split(':').next().unwrap_or_default()
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.queue_slots.iter().map(|slots| slots.queue.clone()).collect()
    }

    /// Failures of one part of this worker, which tries `what`. An outage of the store is logged once for all parts.
    pub(crate) fn backoff(&self, what: impl Into<String>) -> FailureBackoff {
        FailureBackoff::new_shared(what, self.unavailable_parts.clone())
    }

    /// How often leases are extended.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        heartbeat(self.config.lease)
    }
}

/// A process may run several workers; the index tells them apart.
fn generate_holder_id() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let hostname = rustix::system::uname();
    let index = INDEX.fetch_add(1, Ordering::Relaxed);
    HolderId::from_process(&hostname.nodename().to_string_lossy(), std::process::id(), index)
}
