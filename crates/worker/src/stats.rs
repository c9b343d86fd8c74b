//! The counters of a worker, and the types that report them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidemill_core::Queue;

use crate::event::EventKind;
use crate::queue_slots::QueueSlots;

/// A live view of a worker's counters. Cheap to clone; available before the worker runs.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    queue_slots: Arc<OnceLock<Vec<Arc<QueueSlots>>>>,
}

impl Stats {
    pub(crate) fn attach(&self, queue_slots: Vec<Arc<QueueSlots>>) {
        // A worker is built once. If that ever changes, the first build keeps the view.
        let _ = self.queue_slots.set(queue_slots);
    }

    /// The counts of each queue; empty before the worker is built.
    pub fn queues(&self) -> Vec<QueueCounts> {
        let queue_slots = self.queue_slots.get().map_or(&[][..], Vec::as_slice);
        let counts = |lane: &Arc<QueueSlots>| lane.counters.read(lane.running() as u64);
        queue_slots
            .iter()
            .map(|lane| QueueCounts { queue: lane.queue.clone(), counts: counts(lane) })
            .collect()
    }

    /// The counts of all queues together.
    pub fn total(&self) -> JobCounts {
        self.queues().into_iter().fold(JobCounts::default(), |sum, queue| sum.plus(queue.counts))
    }
}

/// The counts of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// The queue.
    pub queue: Queue,
    /// Its counts.
    pub counts: JobCounts,
}

/// The result of a worker's run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The counts of all queues together.
    pub total: JobCounts,
    /// The counts of each queue.
    pub queues: Vec<QueueCounts>,
    /// Work that could not be finished; empty unless a handler blocked or the store was
    /// unavailable.
    pub unfinished: Unfinished,
    /// Whether the fleet ordered the worker to drain.
    pub stopped_by_fleet: bool,
}

/// What a worker could not finish before it stopped. The leases expire, and other workers run the
/// jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Handlers that did not stop even after they were cancelled.
    pub abandoned: u64,
    /// Ended jobs whose settlement did not reach the store.
    pub unsettled: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counts of what happened to jobs. An end is counted when the store has accepted it.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct JobCounts {
            $($(#[$doc])* pub $field: u64,)*
            /// Handlers running right now.
            pub running: u64,
        }

        impl JobCounts {
            fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* running: self.running + other.running }
            }
        }

        /// The counters behind [`JobCounts`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($field: AtomicU64,)*
        }

        impl Counters {
            fn read(&self, running: u64) -> JobCounts {
                JobCounts { $($field: self.$field.load(Ordering::Relaxed),)* running }
            }
        }
    };
}

counts! {
    /// Jobs claimed from the queue.
    claimed,
    /// Jobs that succeeded.
    done,
    /// Attempts that failed and will be retried.
    retried,
    /// Jobs that were moved to the dead letters.
    dead,
    /// Attempts that asked for more time, and jobs of kinds without a handler in this worker.
    snoozed,
    /// Jobs discarded by their handler.
    discarded,
    /// Jobs cancelled while they ran.
    cancelled,
    /// Jobs that were handed back without an attempt.
    handed_back,
    /// Leases that were lost: another worker has the job, or has finished it.
    lost,
}

impl Counters {
    pub(crate) fn claimed(&self, jobs: usize) {
        self.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, kind: EventKind) {
        let counter = match kind {
            // A step that continued succeeded; its chain goes on.
            EventKind::Done | EventKind::Continued => &self.done,
            EventKind::Retried => &self.retried,
            EventKind::Dead => &self.dead,
            EventKind::Snoozed => &self.snoozed,
            EventKind::Discarded => &self.discarded,
            EventKind::Cancelled => &self.cancelled,
            EventKind::HandedBack => &self.handed_back,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
