//! Members whose browser has ended and whose successor has not joined yet.
//!
//! Where there is room for one browser only, the fleet would have none while the next one starts. The old member stays entered, as
//! draining, so that clients wait for its successor instead of being told that there is no worker.

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{WorkerEntry, WorkerStatus};

/// One that has ended.
#[derive(Debug)]
struct Ended {
    number: u64,
    line: usize,
    member: WorkerEntry,
}

/// Those that stay entered until their successor joins.
#[derive(Debug, Default)]
pub(super) struct Handover(Vec<Ended>);

impl Handover {
    /// Keeps a member of this line entered.
    pub(super) fn keep(&mut self, (number, line): (u64, usize), member: WorkerEntry) {
        self.0.push(Ended { number, line, member: WorkerEntry { status: WorkerStatus::Draining, ..member } });
    }

    /// Takes out those of the lines that `is_over` says are served again, or will not be.
    pub(super) fn take(&mut self, is_over: impl Fn(usize) -> bool) -> Vec<WorkerKey> {
        let (over, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|ended| is_over(ended.line));
        self.0 = kept;
        over.into_iter().map(|ended| ended.member.id).collect()
    }

    /// Those that the store is still to hear of.
    pub(super) fn members(&self) -> impl Iterator<Item = (u64, WorkerEntry)> {
        self.0.iter().map(|ended| (ended.number, ended.member.clone()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
