//! Workers whose browser has ended and whose successor has not joined yet.
//!
//! With room for one browser only, the fleet would be empty while the next browser starts. The old
//! worker stays registered as draining, so clients wait instead of getting a `no_worker` error.

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};

/// A worker whose browser has ended.
#[derive(Debug)]
struct EndedWorker {
    number: u64,
    pool: usize,
    entry: WorkerEntry,
}

/// Workers that stay registered until their successor joins.
#[derive(Debug, Default)]
pub(super) struct Handover(Vec<EndedWorker>);

impl Handover {
    /// Keeps a worker of this pool registered.
    pub(super) fn keep(&mut self, number: u64, pool: usize, entry: WorkerEntry) {
        self.0.push(EndedWorker {
            number,
            pool,
            entry: WorkerEntry { status: WorkerStatus::Draining, ..entry },
        });
    }

    /// Removes and returns the workers of those pools for which `is_over` holds: a successor has
    /// joined, or none will.
    pub(super) fn take(&mut self, is_over: impl Fn(usize) -> bool) -> Vec<WorkerKey> {
        let (over, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|ended| is_over(ended.pool));
        self.0 = kept;
        over.into_iter().map(|ended| ended.entry.id).collect()
    }

    /// The entries to include in the next heartbeat.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, WorkerEntry)> {
        self.0.iter().map(|ended| (ended.number, ended.entry.clone()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
