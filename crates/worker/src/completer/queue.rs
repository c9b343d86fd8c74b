//! Jobs that have ended, on their way to the completer.
//!
//! A channel whose bound counts jobs while whole batches are sent and taken, so that neither end pays per job.
//! Settlements that make one trip together, and what is left to do for each job afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tokio::sync::{Notify, Semaphore};

use crate::event::EventKind;
use crate::leases::ClaimedJob;

/// How many ended jobs may wait. While the store is away handlers go on ending; when this many are waiting
/// their slots stay taken, and the worker stands still instead of growing.
const MAX_PENDING_JOBS: usize = 8192;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct PendingSettlement {
    pub(crate) settlement: SettlementState,
    pub(crate) ended_job: EndedJob,
}

/// Whether the store has to be told how a job ended.
#[derive(Debug)]
pub(crate) enum SettlementState {
    /// It has.
    Pending(Settlement),
    /// It knows already, and said this.
    Settled(Verdict),
}

/// What is left to do for a job once it is settled.
#[derive(Debug)]
pub(crate) struct EndedJob {
    /// Whose lease to let go of. Bytes that are no envelope have none: they mean the same to every worker.
    pub(crate) job: Option<Arc<ClaimedJob>>,
    pub(crate) queue_index: usize,
    pub(crate) event_kind: EventKind,
    pub(crate) elapsed: Duration,
    /// When it ended, as the outbox counts.
    pub(crate) epoch: Epoch,
}

/// Counts those who wait for what has ended before them to be settled.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// Jobs that have ended.
#[derive(Debug, Default)]
struct QueueState {
    /// Those that nobody has taken yet.
    waiting: VecDeque<PendingSettlement>,
    epoch: Epoch,
    /// How many that ended in each epoch are not settled.
    by_epoch: BTreeMap<Epoch, usize>,
}

/// The way from the executor to the completer.
#[derive(Debug)]
pub(crate) struct SettlementQueue {
    state: Mutex<QueueState>,
    /// Told when something arrives, and when the outbox is closed.
    changed: Notify,
    capacity: Semaphore,
    /// Told when jobs were settled.
    job_settled: Notify,
    closed: AtomicBool,
}

impl Default for SettlementQueue {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            capacity: Semaphore::new(MAX_PENDING_JOBS),
            job_settled: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }
}

impl SettlementQueue {
    /// Hands ended jobs over; waits while there is no room. After closing they are dropped: nobody is left to
    /// settle them, and their leases run out.
    pub(crate) async fn send(&self, mut ended: Vec<PendingSettlement>) {
        let jobs = u32::try_from(ended.len().min(MAX_PENDING_JOBS)).unwrap_or_default();
        if jobs == 0 || self.closed.load(Ordering::Acquire) {
            return;
        }
        // Its settlement may be accepted before the heartbeat asks for its lease: that is an end, not a loss.
        ended.iter().filter_map(|ended| ended.ended_job.job.as_ref()).for_each(|job| job.stop.mark_ended());
        if let Ok(permits) = self.capacity.acquire_many(jobs).await {
            permits.forget();
            let mut state = self.lock();
            let epoch = state.epoch;
            ended.iter_mut().for_each(|ended| ended.ended_job.epoch = epoch);
            *state.by_epoch.entry(epoch).or_default() += ended.len();
            state.waiting.extend(ended);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Takes up to `max` as soon as there are `enough`, or whatever is left once closed; `None` at the end.
    pub(crate) async fn take(&self, enough: usize, max: usize) -> Option<Vec<PendingSettlement>> {
        loop {
            // Read before looking: what is sent before closing is found after it.
            let closed = self.closed.load(Ordering::Acquire);
            let batch = self.try_take(if closed { 1 } else { enough }, max);
            if closed || batch.is_some() {
                return batch;
            }
            self.changed.notified().await;
        }
    }

    fn try_take(&self, enough: usize, max: usize) -> Option<Vec<PendingSettlement>> {
        let waiting = &mut self.lock().waiting;
        let batch = max.min(waiting.len());
        (waiting.len() >= enough).then(|| waiting.drain(..batch).collect())
    }

    /// Completes when something is there, or nothing will be any more.
    pub(crate) async fn wait_for_jobs(&self) {
        while self.lock().waiting.is_empty() && !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    /// Makes room for jobs that were settled, by when they ended.
    pub(crate) fn mark_settled(&self, epochs: &[Epoch]) {
        let mut state = self.lock();
        for epoch in epochs {
            if let Some(jobs) = state.by_epoch.get_mut(epoch) {
                *jobs = jobs.saturating_sub(1);
            }
        }
        state.by_epoch.retain(|_, jobs| *jobs > 0);
        drop(state);
        self.capacity.add_permits(epochs.len());
        self.job_settled.notify_waiters();
    }

    /// Completes when no job that has ended before this call is unsettled. Jobs that end later are not waited for.
    pub(crate) async fn wait_for_earlier_jobs(&self) {
        let epoch = {
            let mut state = self.lock();
            let epoch = state.epoch;
            state.epoch = Epoch(epoch.0 + 1);
            epoch
        };
        loop {
            // Listens before it looks, so that a settlement in between is not missed.
            let told = self.job_settled.notified();
            if self.lock().by_epoch.keys().next().is_none_or(|oldest| *oldest > epoch) {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Nothing more is coming.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settlements and their notes, in the same order.
#[derive(Debug, Default)]
pub(crate) struct SettlementBatch {
    settlements: Vec<Settlement>,
    ended_jobs: Vec<EndedJob>,
    /// When the first trip began that got no answer, and may have settled what is not found any more.
    pub(crate) unknown_since: Option<Instant>,
}

impl SettlementBatch {
    pub(crate) fn push(&mut self, settlement: Settlement, ended_job: EndedJob) {
        self.settlements.push(settlement);
        self.ended_jobs.push(ended_job);
    }

    pub(crate) fn settlements(&self) -> &[Settlement] {
        &self.settlements
    }

    pub(crate) fn into_notes(self) -> Vec<EndedJob> {
        self.ended_jobs
    }

    pub(crate) fn len(&self) -> usize {
        self.ended_jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ended_jobs.is_empty()
    }

    /// Takes out the settlements of which the store does not know what became of them.
    pub(crate) fn take_unknown(&mut self, verdicts: &[Verdict]) -> Self {
        let mut unknown = Self { unknown_since: self.unknown_since, ..Self::default() };
        if !verdicts.contains(&Verdict::Unknown) {
            return unknown;
        }
        let settlements = std::mem::take(&mut self.settlements).into_iter();
        let ended_jobs = std::mem::take(&mut self.ended_jobs).into_iter();
        for ((settlement, ended_job), verdict) in settlements.zip(ended_jobs).zip(verdicts) {
            let batch = if *verdict == Verdict::Unknown { &mut unknown } else { &mut *self };
            batch.push(settlement, ended_job);
        }
        unknown
    }

    /// Two halves; one that cannot be halved stays whole.
    pub(crate) fn split(mut self) -> impl Iterator<Item = Self> {
        let half = self.len().div_ceil(2);
        let (settlements, ended_jobs) = (self.settlements.split_off(half), self.ended_jobs.split_off(half));
        let rest = Self { settlements, ended_jobs, unknown_since: self.unknown_since };
        [self, rest].into_iter().filter(|batch| !batch.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tidemill_core::settle::Change;
    use tidemill_core::{JobId, Lease, Queue, QueueName, Token};

    use super::*;

    fn ended() -> PendingSettlement {
        let queue = Queue::at_least_once(QueueName::new("q").unwrap());
        let lease = Lease { queue, job: JobId::generate(), shard: 0, token: Token(1) };
        let (event_kind, epoch) = (EventKind::Done, Epoch::default());
        let ended_job = EndedJob { job: None, queue_index: 0, event_kind, elapsed: Duration::ZERO, epoch };
        PendingSettlement {
            settlement: SettlementState::Pending(Settlement { lease, change: Change::Finish(None) }),
            ended_job,
        }
    }

    fn epochs(ended: &[PendingSettlement]) -> Vec<Epoch> {
        ended.iter().map(|ended| ended.ended_job.epoch).collect()
    }

    #[tokio::test]
    async fn a_job_counts_as_unsettled_from_its_end_to_its_settlement() {
        let settlement_queue = SettlementQueue::default();
        settlement_queue.wait_for_earlier_jobs().await;
        settlement_queue.send(vec![ended(), ended()]).await;
        let taken = settlement_queue.take(1, 10).await.unwrap();
        let mut waiting = Box::pin(settlement_queue.wait_for_earlier_jobs());
        assert!(waiting.as_mut().now_or_never().is_none());
        settlement_queue.mark_settled(&epochs(&taken));
        waiting.await;
    }

    #[tokio::test]
    async fn what_ends_later_is_not_waited_for() {
        let settlement_queue = SettlementQueue::default();
        settlement_queue.send(vec![ended()]).await;
        let first = settlement_queue.take(1, 10).await.unwrap();
        let mut waiting = Box::pin(settlement_queue.wait_for_earlier_jobs());
        assert!(waiting.as_mut().now_or_never().is_none());
        settlement_queue.send(vec![ended()]).await;
        settlement_queue.mark_settled(&epochs(&first));
        assert!(waiting.as_mut().now_or_never().is_some());
    }
}
