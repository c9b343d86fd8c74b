//! The state that all parts of one worker share.

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

/// The store, the settings, and the jobs that this worker holds.
pub(crate) struct WorkerShared {
    pub(crate) store: Arc<dyn Store>,
    /// A client of the same store, for handlers that enqueue jobs.
    pub(crate) client: Client,
    /// The id under which this worker holds leases.
    pub(crate) worker: HolderId,
    pub(crate) config: Config,
    /// One per queue, in the order of the builder.
    pub(crate) queue_slots: Vec<Arc<QueueSlots>>,
    /// Every lease that the heartbeat extends.
    pub(crate) leases: Leases,
    /// Ended jobs that wait for their settlement.
    pub(crate) settlement_queue: SettlementQueue,
    /// The log of failed attempts.
    pub(crate) failure_log: FailureLog,
    /// The number of this worker's parts that cannot reach the store.
    unavailable_parts: Arc<AtomicUsize>,
    /// `None` without subscribers.
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

    /// The host that the worker runs on.
    pub(crate) fn host(&self) -> &str {
        self.worker.as_str().split(':').next().unwrap_or_default()
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.queue_slots.iter().map(|slots| slots.queue.clone()).collect()
    }

    /// Tracks failures of one part that is doing `what`. An outage of the store is logged once for
    /// all parts.
    pub(crate) fn backoff(&self, what: impl Into<String>) -> FailureBackoff {
        FailureBackoff::new_shared(what, self.unavailable_parts.clone())
    }

    /// The interval at which leases are extended.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        heartbeat(self.config.lease)
    }
}

/// A process may run several workers; the index distinguishes them.
fn generate_holder_id() -> HolderId {
    static INDEX: AtomicU32 = AtomicU32::new(0);
    let hostname = rustix::system::uname();
    let index = INDEX.fetch_add(1, Ordering::Relaxed);
    HolderId::from_process(&hostname.nodename().to_string_lossy(), std::process::id(), index)
}
