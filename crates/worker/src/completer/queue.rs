//! The queue from the executor to the completer, and batches of settlements.
//!
//! The queue's capacity counts jobs, but whole batches are sent and taken, so that neither side has
//! a cost per job.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tokio::sync::{Notify, Semaphore};

use crate::event::EventKind;
use crate::leases::ClaimedJob;

/// The maximum number of ended jobs in the queue. Handlers keep ending while the store is
/// unavailable. At this limit their slots stay occupied, so the worker stops claiming instead of
/// growing.
const MAX_PENDING_JOBS: usize = 8192;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct PendingSettlement {
    /// The settlement, or the verdict if the transaction of the handler has settled the job.
    pub(crate) settlement: Result<Settlement, Verdict>,
    pub(crate) ended_job: EndedJob,
}

/// What the completer needs of a job once it is settled.
#[derive(Debug)]
pub(crate) struct EndedJob {
    /// The job whose lease to release. `None` for jobs that never ran, such as malformed envelopes:
    /// every worker would decide the same.
    pub(crate) job: Option<Arc<ClaimedJob>>,
    pub(crate) queue_index: usize,
    pub(crate) event_kind: EventKind,
    pub(crate) elapsed: Duration,
    /// When the job ended, in epochs of the queue.
    pub(crate) epoch: Epoch,
}

/// A number that separates jobs that ended before a call of `wait_for_earlier_jobs` from later
/// ones.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// The state behind the mutex.
#[derive(Debug, Default)]
struct QueueState {
    /// Jobs that no batch has taken yet.
    waiting: VecDeque<PendingSettlement>,
    epoch: Epoch,
    /// The number of unsettled jobs that ended in each epoch.
    by_epoch: BTreeMap<Epoch, usize>,
}

/// The queue of ended jobs.
#[derive(Debug)]
pub(crate) struct SettlementQueue {
    state: Mutex<QueueState>,
    /// Notified when jobs arrive and when the queue is closed.
    changed: Notify,
    capacity: Semaphore,
    /// Notified when jobs are settled.
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
    /// Adds ended jobs; waits while the queue is full. A closed queue drops them: nothing settles
    /// them any more, and their leases expire.
    pub(crate) async fn send(&self, mut ended: Vec<PendingSettlement>) {
        let jobs = u32::try_from(ended.len().min(MAX_PENDING_JOBS)).unwrap_or_default();
        if jobs == 0 || self.closed.load(Ordering::Acquire) {
            return;
        }
        // The settlement may be accepted before the next heartbeat. The heartbeat must not report
        // it as a lost lease.
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

    /// Takes up to `max` jobs as soon as there are `enough`. A closed queue returns the rest, then
    /// `None`.
    pub(crate) async fn take(&self, enough: usize, max: usize) -> Option<Vec<PendingSettlement>> {
        loop {
            // Read before the queue, so that jobs that were sent before the close are found.
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

    /// Completes when the queue has jobs or is closed.
    pub(crate) async fn wait_for_jobs(&self) {
        while self.lock().waiting.is_empty() && !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    /// Frees the capacity of settled jobs, given by their epochs.
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

    /// Completes when every job that ended before this call is settled. Jobs that end later do not
    /// delay it.
    pub(crate) async fn wait_for_earlier_jobs(&self) {
        let epoch = {
            let mut state = self.lock();
            let epoch = state.epoch;
            state.epoch = Epoch(epoch.0 + 1);
            epoch
        };
        loop {
            // Created before the check, so that no notification is missed.
            let notified = self.job_settled.notified();
            if self.lock().by_epoch.keys().next().is_none_or(|oldest| *oldest > epoch) {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Closes the queue.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settlements and their jobs, in the same order.
#[derive(Debug, Default)]
pub(crate) struct SettlementBatch {
    settlements: Vec<Settlement>,
    ended_jobs: Vec<EndedJob>,
    /// Whether an earlier call got no answer. It may have settled jobs that a later call does not
    /// find.
    pub(crate) unanswered: bool,
}

impl SettlementBatch {
    pub(crate) fn push(&mut self, settlement: Settlement, ended_job: EndedJob) {
        self.settlements.push(settlement);
        self.ended_jobs.push(ended_job);
    }

    pub(crate) fn settlements(&self) -> &[Settlement] {
        &self.settlements
    }

    pub(crate) fn into_ended_jobs(self) -> Vec<EndedJob> {
        self.ended_jobs
    }

    pub(crate) fn len(&self) -> usize {
        self.ended_jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ended_jobs.is_empty()
    }

    /// Splits off the settlements whose verdict is unknown.
    pub(crate) fn take_unknown(&mut self, verdicts: &[Verdict]) -> Self {
        let mut unknown = Self { unanswered: self.unanswered, ..Self::default() };
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

    /// Splits the batch into halves; a batch of one stays whole.
    pub(crate) fn split(mut self) -> impl Iterator<Item = Self> {
        let half = self.len().div_ceil(2);
        let (settlements, ended_jobs) = (self.settlements.split_off(half), self.ended_jobs.split_off(half));
        let rest = Self { settlements, ended_jobs, unanswered: self.unanswered };
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
        PendingSettlement { settlement: Ok(Settlement { lease, change: Change::Finish(None) }), ended_job }
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
