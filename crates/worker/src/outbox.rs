//! Jobs that have ended, on their way to the completer.
//!
//! A channel whose bound counts jobs while whole batches are sent and taken, so that neither end pays per job.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tokio::sync::{Notify, Semaphore};

use crate::assignment::Assignment;
use crate::event::Ending;

/// How many ended jobs may wait. While the store is away handlers go on ending; when this many are waiting
/// their slots stay taken, and the worker stands still instead of growing.
const ROOM: usize = 8192;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) fate: Fate,
    pub(crate) note: Note,
}

/// Whether the store has to be told how a job ended.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It has.
    Settle(Settlement),
    /// It knows already, and said this.
    Settled(Verdict),
}

/// What is left to do for a job once it is settled.
#[derive(Debug)]
pub(crate) struct Note {
    /// Whose lease to let go of. Bytes that are no envelope have none: they mean the same to every worker.
    pub(crate) assignment: Option<Arc<Assignment>>,
    pub(crate) lane: usize,
    pub(crate) ending: Ending,
    pub(crate) took: Duration,
    /// When it ended, as the outbox counts.
    pub(crate) epoch: Epoch,
}

/// Counts those who wait for what has ended before them to be settled.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// Jobs that have ended.
#[derive(Debug, Default)]
struct Unsettled {
    /// Those that nobody has taken yet.
    waiting: VecDeque<Ended>,
    epoch: Epoch,
    /// How many that ended in each epoch are not settled.
    by_epoch: BTreeMap<Epoch, usize>,
}

/// The way from the executor to the completer.
#[derive(Debug)]
pub(crate) struct Outbox {
    unsettled: Mutex<Unsettled>,
    /// Told when something arrives, and when the outbox is closed.
    changed: Notify,
    room: Semaphore,
    /// Told when jobs were settled.
    settled: Notify,
    closed: AtomicBool,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            unsettled: Mutex::default(),
            changed: Notify::new(),
            room: Semaphore::new(ROOM),
            settled: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }
}

impl Outbox {
    /// Hands ended jobs over; waits while there is no room. After closing they are dropped: nobody is left to
    /// settle them, and their leases run out.
    pub(crate) async fn send(&self, mut ended: Vec<Ended>) {
        let jobs = u32::try_from(ended.len().min(ROOM)).unwrap_or_default();
        if jobs == 0 || self.closed.load(Ordering::Acquire) {
            return;
        }
        // Its settlement may be accepted before the heartbeat asks for its lease: that is an end, not a loss.
        ended.iter().filter_map(|ended| ended.note.assignment.as_ref()).for_each(|job| job.stop.ended());
        if let Ok(permits) = self.room.acquire_many(jobs).await {
            permits.forget();
            let mut unsettled = self.lock();
            let epoch = unsettled.epoch;
            ended.iter_mut().for_each(|ended| ended.note.epoch = epoch);
            *unsettled.by_epoch.entry(epoch).or_default() += ended.len();
            unsettled.waiting.extend(ended);
            drop(unsettled);
            self.changed.notify_one();
        }
    }

    /// Takes up to `max` as soon as there are `enough`, or whatever is left once closed; `None` at the end.
    pub(crate) async fn take(&self, enough: usize, max: usize) -> Option<Vec<Ended>> {
        loop {
            // Read before looking: what is sent before closing is found after it.
            let closed = self.closed.load(Ordering::Acquire);
            let batch = self.take_now(if closed { 1 } else { enough }, max);
            if closed || batch.is_some() {
                return batch;
            }
            self.changed.notified().await;
        }
    }

    fn take_now(&self, enough: usize, max: usize) -> Option<Vec<Ended>> {
        let waiting = &mut self.lock().waiting;
        let batch = max.min(waiting.len());
        (waiting.len() >= enough).then(|| waiting.drain(..batch).collect())
    }

    /// Completes when something is there, or nothing will be any more.
    pub(crate) async fn arrival(&self) {
        while self.lock().waiting.is_empty() && !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    /// Makes room for jobs that were settled, by when they ended.
    pub(crate) fn settled(&self, epochs: &[Epoch]) {
        let mut unsettled = self.lock();
        for epoch in epochs {
            if let Some(jobs) = unsettled.by_epoch.get_mut(epoch) {
                *jobs = jobs.saturating_sub(1);
            }
        }
        unsettled.by_epoch.retain(|_, jobs| *jobs > 0);
        drop(unsettled);
        self.room.add_permits(epochs.len());
        self.settled.notify_waiters();
    }

    /// Completes when no job that has ended before this call is unsettled. Jobs that end later are not waited for.
    pub(crate) async fn settled_so_far(&self) {
        let epoch = {
            let mut unsettled = self.lock();
            let epoch = unsettled.epoch;
            unsettled.epoch = Epoch(epoch.0 + 1);
            epoch
        };
        loop {
            // Listens before it looks, so that a settlement in between is not missed.
            let told = self.settled.notified();
            if self.lock().by_epoch.keys().next().is_none_or(|oldest| *oldest > epoch) {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Nothing more is coming.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Unsettled> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tidemill_core::settle::Change;
    use tidemill_core::{JobId, Lease, Queue, QueueName, Token};

    use super::*;

    fn ended() -> Ended {
        let queue = Queue::at_least_once(QueueName::new("q").unwrap());
        let lease = Lease { queue, job: JobId::generate(), shard: 0, token: Token(1) };
        let (ending, epoch) = (Ending::Done, Epoch::default());
        let note = Note { assignment: None, lane: 0, ending, took: Duration::ZERO, epoch };
        Ended { fate: Fate::Settle(Settlement { lease, change: Change::Finish(None) }), note }
    }

    fn epochs(ended: &[Ended]) -> Vec<Epoch> {
        ended.iter().map(|ended| ended.note.epoch).collect()
    }

    #[tokio::test]
    async fn a_job_counts_as_unsettled_from_its_end_to_its_settlement() {
        let outbox = Outbox::default();
        outbox.settled_so_far().await;
        outbox.send(vec![ended(), ended()]).await;
        let taken = outbox.take(1, 10).await.unwrap();
        let mut waiting = Box::pin(outbox.settled_so_far());
        assert!(waiting.as_mut().now_or_never().is_none());
        outbox.settled(&epochs(&taken));
        waiting.await;
    }

    #[tokio::test]
    async fn what_ends_later_is_not_waited_for() {
        let outbox = Outbox::default();
        outbox.send(vec![ended()]).await;
        let first = outbox.take(1, 10).await.unwrap();
        let mut waiting = Box::pin(outbox.settled_so_far());
        assert!(waiting.as_mut().now_or_never().is_none());
        outbox.send(vec![ended()]).await;
        outbox.settled(&epochs(&first));
        assert!(waiting.as_mut().now_or_never().is_some());
    }
}
