//! Jobs that have ended, on their way to the completer.
//!
//! A channel whose bound counts jobs while whole batches are sent and taken, so that neither end pays per job.

use std::collections::VecDeque;
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
}

/// The way from the executor to the completer.
#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<Ended>>,
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
            waiting: Mutex::default(),
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
    pub(crate) async fn send(&self, ended: Vec<Ended>) {
        let jobs = u32::try_from(ended.len().min(ROOM)).unwrap_or_default();
        if jobs == 0 || self.closed.load(Ordering::Acquire) {
            return;
        }
        // Its settlement may be accepted before the heartbeat asks for its lease: that is an end, not a loss.
        ended.iter().filter_map(|ended| ended.note.assignment.as_ref()).for_each(|job| job.stop.ended());
        if let Ok(permits) = self.room.acquire_many(jobs).await {
            permits.forget();
            self.lock().extend(ended);
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
        let mut waiting = self.lock();
        let batch = max.min(waiting.len());
        (waiting.len() >= enough).then(|| waiting.drain(..batch).collect())
    }

    /// Completes when something is there, or nothing will be any more.
    pub(crate) async fn arrival(&self) {
        while self.lock().is_empty() && !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    /// Makes room for as many as were settled.
    pub(crate) fn settled(&self, jobs: usize) {
        self.room.add_permits(jobs);
        self.settled.notify_waiters();
    }

    /// Completes when no job is between its end and its settlement.
    pub(crate) async fn all_settled(&self) {
        loop {
            // Listens before it looks, so that a settlement in between is not missed.
            let told = self.settled.notified();
            if self.room.available_permits() >= ROOM {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Nothing more is coming.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        let note = Note { assignment: None, lane: 0, ending: Ending::Done, took: Duration::ZERO };
        Ended { fate: Fate::Settle(Settlement { lease, change: Change::Finish(None) }), note }
    }

    #[tokio::test]
    async fn a_job_counts_as_unsettled_from_its_end_to_its_settlement() {
        let outbox = Outbox::default();
        outbox.all_settled().await;
        outbox.send(vec![ended(), ended()]).await;
        let taken = outbox.take(1, 10).await.unwrap();
        let mut waiting = Box::pin(outbox.all_settled());
        assert!(waiting.as_mut().now_or_never().is_none());
        outbox.settled(taken.len());
        waiting.await;
    }
}
