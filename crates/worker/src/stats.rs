//! Counting what a worker does, and reading the counts from outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidemill_core::Queue;

use crate::event::Ending;
use crate::lane::Lane;

/// A live view of a worker's counters. Cheap to clone; may be taken before the worker runs.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    lanes: Arc<OnceLock<Vec<Arc<Lane>>>>,
}

impl Stats {
    pub(crate) fn attach(&self, lanes: Vec<Arc<Lane>>) {
        // A worker is built once; if that ever changes, the first build keeps the view.
        let _ = self.lanes.set(lanes);
    }

    /// The counts of each queue; none before the worker is built.
    pub fn queues(&self) -> Vec<QueueCounts> {
        let lanes = self.lanes.get().map_or(&[][..], Vec::as_slice);
        let counts = |lane: &Arc<Lane>| lane.counters.read(lane.running() as u64);
        lanes.iter().map(|lane| QueueCounts { queue: lane.queue.clone(), counts: counts(lane) }).collect()
    }

    /// The counts of all queues together.
    pub fn total(&self) -> Counts {
        self.queues().into_iter().fold(Counts::default(), |sum, queue| sum.plus(queue.counts))
    }
}

/// The counts of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// Which queue.
    pub queue: Queue,
    /// Its counts.
    pub counts: Counts,
}

/// What a worker did when it has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All queues together.
    pub total: Counts,
    /// Each queue.
    pub queues: Vec<QueueCounts>,
    /// What it left behind; nothing, unless a handler blocked or the store was away.
    pub left: LeftBehind,
    /// Whether it ended because the fleet ordered it to.
    pub ordered: bool,
}

/// What a worker could not clear up before it ended. The leases run out, and other workers take over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Handlers that did not stop even after they were cancelled.
    pub abandoned: u64,
    /// Ended jobs whose settlement did not reach the store.
    pub unsettled: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What happened to jobs. An ending counts when the store has accepted it.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $field: u64,)*
            /// Handlers running right now.
            pub running: u64,
        }

        impl Counts {
            fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* running: self.running + other.running }
            }
        }

        /// The counters behind [`Counts`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($field: AtomicU64,)*
        }

        impl Counters {
            fn read(&self, running: u64) -> Counts {
                Counts { $($field: self.$field.load(Ordering::Relaxed),)* running }
            }
        }
    };
}

counts! {
    /// Jobs taken from the queue.
    claimed,
    /// Jobs that ended well.
    done,
    /// Attempts that failed and will be repeated.
    retried,
    /// Jobs that went to the dead letters.
    dead,
    /// Attempts that asked for more time, and jobs of a kind nobody here handles.
    snoozed,
    /// Jobs their handler gave up.
    discarded,
    /// Jobs somebody cancelled while they ran.
    cancelled,
    /// Jobs that went back untouched.
    handed_back,
    /// Leases that were lost: somebody else has the job now, or has finished it.
    lost,
}

impl Counters {
    pub(crate) fn claimed(&self, jobs: usize) {
        self.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, ending: Ending) {
        let counter = match ending {
            // A step that continued is a job that ended well; the chain goes on.
            Ending::Done | Ending::Continued => &self.done,
            Ending::Retried => &self.retried,
            Ending::Dead => &self.dead,
            Ending::Snoozed => &self.snoozed,
            Ending::Discarded => &self.discarded,
            Ending::Cancelled => &self.cancelled,
            Ending::HandedBack => &self.handed_back,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
