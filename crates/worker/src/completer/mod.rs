//! Settles jobs that have ended, in batches.
//!
//! Nothing waits for a batch to fill: what is there is settled at once, and whatever ends meanwhile is the
//! next batch. So an idle worker settles one job without delay and a busy one hundreds in one trip. Nothing waits for
//! a batch that takes long either, and one that fails is repeated beside those that come after it.

pub(crate) mod queue;
mod retry;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::Error;
use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, error};

use crate::completer::queue::SettlementBatch;
use crate::completer::queue::{EndedJob, PendingSettlement, SettlementState};
use crate::completer::retry::RetryQueue;
use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::event::Event;
use crate::shared::WorkerShared;

/// The most settlements in one trip.
const MAX_BATCH_SETTLEMENTS: usize = 512;

/// A second trip leaves while the first is under way only for so many: many small trips cost more than a
/// short wait.
const MIN_SECOND_BATCH: usize = 256;

/// So few may be the first of many that end in this very moment.
const SMALL_BATCH: usize = 64;

/// A trip that takes longer than this is not waited for: it may be stuck at a job that somebody's transaction has locked.
const SLOW_CALL_AFTER: Duration = Duration::from_millis(100);

/// How many such trips there may be. A store that is away makes no more errors than these and the repeater do.
const MAX_SLOW_CALLS: usize = 3;

/// How long a trip that failed keeps its place, so that a store that is away is not asked all the time.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How many batches may wait for the repeater to look; it takes them in whenever it does.
const MAX_FAILED_BATCHES: usize = 16;

/// Where batches go that have failed.
type FailedBatches = mpsc::Sender<(SettlementBatch, Error)>;

/// A batch under way for the first time.
type SettleCall<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Settles the jobs of all queues.
pub(crate) struct Completer {
    pub(crate) shared: Arc<WorkerShared>,
}

impl Completer {
    pub(crate) fn new(shared: Arc<WorkerShared>) -> Self {
        Self { shared }
    }

    /// Settles until the outbox is closed and everything is settled.
    pub(crate) async fn run(self) {
        let (failed, retries) = mpsc::channel(MAX_FAILED_BATCHES);
        tokio::join!(self.settle_new(failed), RetryQueue::new(&self, retries).run());
    }

    async fn settle_new(&self, failed: FailedBatches) {
        let (mut calls, mut slow) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut open = true;
        loop {
            let enough = if calls.is_empty() { 1 } else { MIN_SECOND_BATCH };
            tokio::select! {
                biased;
                Some(call) = calls.next(), if !calls.is_empty() => slow.extend(call),
                Some(()) = slow.next(), if !slow.is_empty() => {}
                batch = self.next_batch(enough), if open && calls.len() < 2 && slow.len() < MAX_SLOW_CALLS => match batch {
                    Some(batch) => calls.push(return_if_slow(Box::pin(self.settle_first_time(batch, &failed)))),
                    None => open = false,
                },
                else => return,
            }
        }
    }

    async fn next_batch(&self, enough: usize) -> Option<Vec<PendingSettlement>> {
        let settlement_queue = &self.shared.settlement_queue;
        if enough < SMALL_BATCH && settlement_queue.len() < SMALL_BATCH {
            settlement_queue.wait_for_jobs().await;
            // Lets tasks that are ready to run end their jobs first. Costs nothing when there are none.
            tokio::task::yield_now().await;
        }
        settlement_queue.take(enough, MAX_BATCH_SETTLEMENTS).await
    }

    /// Settles a batch, or leaves that to the repeater.
    async fn settle_first_time(&self, ended: Vec<PendingSettlement>, failed: &FailedBatches) {
        let batch = self.settle_known(ended);
        if let Err(failure) = self.settle(batch).await {
            // It is there for as long as this is.
            let _ = failed.send(failure).await;
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Closes what needs no settling; returns what does.
    fn settle_known(&self, ended: Vec<PendingSettlement>) -> SettlementBatch {
        let (mut known, mut batch) = (Vec::new(), SettlementBatch::default());
        for PendingSettlement { settlement, ended_job } in ended {
            match settlement {
                SettlementState::Settled(verdict) => {
                    known.push((ended_job, KnownVerdict::new(verdict, false)))
                }
                SettlementState::Pending(_) if is_lost(&ended_job) => {
                    known.push((ended_job, KnownVerdict::new(Verdict::LeaseLost, false)));
                }
                SettlementState::Pending(settlement) => batch.push(settlement, ended_job),
            }
        }
        self.finish_jobs(known);
        batch
    }

    /// Settles a batch as a whole; gives it back if the store cannot do so now.
    pub(crate) async fn settle(&self, mut batch: SettlementBatch) -> Result<(), (SettlementBatch, Error)> {
        if batch.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let verdicts = match self.try_settle(batch.settlements()).await {
            Ok(verdicts) => verdicts,
            Err(error) if is_job_error(&error) => self.settle_one_by_one(batch.settlements()).await,
            Err(error) => {
                if matches!(error, Error::Unanswered { .. }) {
                    batch.unknown_since.get_or_insert(begun);
                }
                return Err((batch, error));
            }
        };
        // A lease cannot run out within a beat. After a longer time another worker may have the job.
        let after_unanswered =
            batch.unknown_since.is_some_and(|since| since.elapsed() < self.shared.heartbeat_interval());
        let with_verdict = |(ended_job, verdict)| (ended_job, KnownVerdict::new(verdict, after_unanswered));
        let mut unknown = batch.take_unknown(&verdicts);
        let known = verdicts.into_iter().filter(|verdict| *verdict != Verdict::Unknown);
        self.finish_jobs(batch.into_notes().into_iter().zip(known).map(with_verdict).collect());
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.unknown_since.get_or_insert(begun);
        let message = format!("a part of the store gave no answer about {} settlements", unknown.len());
        Err((unknown, Error::Unanswered { message, source: None }))
    }

    /// Finds out which settlement the store chokes on, so that the others are not held up by it.
    async fn settle_one_by_one(&self, settlements: &[Settlement]) -> Vec<Verdict> {
        let mut backoff = self.shared.backoff("settling a job");
        let mut verdicts = Vec::with_capacity(settlements.len());
        while let Some(settlement) = settlements.get(verdicts.len()) {
            match self.try_settle(std::slice::from_ref(settlement)).await {
                Ok(verdict) if verdict == [Verdict::Unknown] => sleep(RETRY_PAUSE).await,
                Ok(verdict) => verdicts.extend(verdict.into_iter().take(1)),
                Err(error) if is_job_error(&error) => {
                    let job = &settlement.lease.job;
                    error!("job {job} cannot be settled, its lease will run out: {}", error.full_message());
                    verdicts.push(Verdict::LeaseLost);
                }
                Err(error) => sleep(backoff.record_failure(&error)).await,
            }
        }
        verdicts
    }

    async fn try_settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        let verdicts = with_timeout(CALL_TIMEOUT, "settle", self.shared.store.settle(settlements)).await?;
        if verdicts.len() == settlements.len() {
            return Ok(verdicts);
        }
        let message = format!("{} verdicts on {} settlements", verdicts.len(), settlements.len());
        Err(Error::Unavailable { message, source: None })
    }

    /// Counts, tells and lets go.
    fn finish_jobs(&self, ended: Vec<(EndedJob, KnownVerdict)>) {
        let epochs: Vec<_> = ended.iter().map(|(ended_job, _)| ended_job.epoch).collect();
        let count = |(ended_job, verdicts): (EndedJob, KnownVerdict)| {
            let counters = &self.shared.queue_slots[ended_job.queue_index].counters;
            let verdict = verdicts.assumed(&ended_job);
            match verdict {
                Verdict::Accepted => counters.ended(ended_job.event_kind),
                Verdict::LeaseLost | Verdict::Unknown => counters.lost(),
            }
            self.emit_event(&ended_job, verdict);
            if let Some(job) = &ended_job.job {
                // Whoever builds on what was settled has to know for certain.
                job.settled(verdicts.verdict);
            }
            ended_job.job
        };
        // Counted before the lock is taken, so that it is held for letting go only.
        let jobs: Vec<_> = ended.into_iter().filter_map(count).collect();
        self.shared.leases.remove(jobs);
        self.shared.settlement_queue.mark_settled(&epochs);
    }

    fn emit_event(&self, ended_job: &EndedJob, verdict: Verdict) {
        let Some(job) = &ended_job.job else { return };
        if verdict == Verdict::LeaseLost {
            debug!(job = %job.lease.job, "the lease was lost; the settlement ({}) had no effect", ended_job.event_kind);
        } else if let Some(events) = &self.shared.events {
            let (id, kind) = (job.envelope.id().clone(), job.envelope.kind().clone());
            let queue = job.lease.queue.clone();
            // An error means that nobody listens any more.
            let _ = events.send(Event {
                job: id,
                kind,
                queue,
                outcome: ended_job.event_kind,
                elapsed: ended_job.elapsed,
            });
        }
    }
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy)]
struct KnownVerdict {
    /// What the store said.
    verdict: Verdict,
    /// Whether an earlier trip got no answer, so short a time ago that the lease cannot have run out.
    after_unanswered: bool,
}

impl KnownVerdict {
    fn new(verdict: Verdict, after_unanswered: bool) -> Self {
        Self { verdict, after_unanswered }
    }

    /// What most likely took place. A lease that is gone at the second trip, and of which the heartbeat has not heard
    /// that it was lost, was ended by the first.
    fn assumed(self, ended_job: &EndedJob) -> Verdict {
        if self.after_unanswered && !is_lost(ended_job) { Verdict::Accepted } else { self.verdict }
    }
}

/// The trip, if it has not come back soon.
async fn return_if_slow(mut call: SettleCall<'_>) -> Option<SettleCall<'_>> {
    timeout(SLOW_CALL_AFTER, &mut call).await.is_err().then_some(call)
}

fn is_lost(ended_job: &EndedJob) -> bool {
    ended_job.job.as_ref().is_some_and(|job| job.stop.is_lost())
}

/// Whether an error is the fault of what was to be settled rather than of the store.
fn is_job_error(error: &Error) -> bool {
    matches!(error, Error::Invalid(_) | Error::NotFound(_) | Error::Corrupt(_))
}
