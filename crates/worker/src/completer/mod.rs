//! The completer: settles ended jobs in batches.
//!
//! It does not wait for a batch to fill. Pending settlements are sent at once, and jobs that end
//! meanwhile form the next batch. So an idle worker settles one job without delay, and a busy one
//! hundreds per call. A slow call does not delay later batches, and a failed batch is retried next
//! to them.

pub(crate) mod queue;
mod retry;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::Error;
use tidemill_core::settle::Settlement;
use tidemill_core::store::{SettleParams, Verdict};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, error};

use crate::completer::queue::SettlementBatch;
use crate::completer::queue::{EndedJob, PendingSettlement};
use crate::completer::retry::RetryQueue;
use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::event::Event;
use crate::leases::ClaimedJob;
use crate::shared::WorkerShared;

/// The maximum number of settlements in one call.
const MAX_BATCH_SETTLEMENTS: usize = 512;

/// The minimum number of settlements for a second concurrent call: many small calls cost more than
/// a short wait.
const MIN_SECOND_BATCH: usize = 256;

/// A batch below this size waits until tasks that are ready to run have ended their jobs.
const SMALL_BATCH: usize = 64;

/// Calls that take longer than this no longer count as current. They may wait for a job that is
/// locked by a user's transaction.
const SLOW_CALL_AFTER: Duration = Duration::from_millis(100);

/// The maximum number of such slow calls. It bounds the errors that an unavailable store causes.
const MAX_SLOW_CALLS: usize = 3;

/// How long a failed call keeps its slot, so that an unavailable store is not called in a loop.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Capacity of the channel to the retry queue, which empties it before each of its calls.
const MAX_FAILED_BATCHES: usize = 16;

/// The channel to the retry queue.
type FailedBatches = mpsc::Sender<(SettlementBatch, Error)>;

/// The first call for a batch.
type SettleCall<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Settles the jobs of all queues.
pub(crate) struct Completer {
    pub(crate) shared: Arc<WorkerShared>,
}

impl Completer {
    pub(crate) fn new(shared: Arc<WorkerShared>) -> Self {
        Self { shared }
    }

    /// Settles until the queue is closed and empty.
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
            // Lets tasks that are ready to run end their jobs first. Costs nothing when there are
            // none.
            tokio::task::yield_now().await;
        }
        settlement_queue.take(enough, MAX_BATCH_SETTLEMENTS).await
    }

    /// Settles a batch, or passes it to the retry queue.
    async fn settle_first_time(&self, ended: Vec<PendingSettlement>, failed: &FailedBatches) {
        let batch = self.settle_known(ended);
        if let Err(failure) = self.settle(batch).await {
            // The receiver lives as long as this future.
            let _ = failed.send(failure).await;
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Finishes jobs that need no settlement; returns the others.
    fn settle_known(&self, ended: Vec<PendingSettlement>) -> SettlementBatch {
        let (mut known, mut batch) = (Vec::new(), SettlementBatch::default());
        for PendingSettlement { settlement, ended_job } in ended {
            match settlement {
                Err(verdict) => known.push((ended_job, verdict)),
                Ok(_) if is_lost(&ended_job) => known.push((ended_job, Verdict::LeaseLost)),
                Ok(settlement) => batch.push(settlement, ended_job),
            }
        }
        self.finish_jobs(known, false);
        batch
    }

    /// Settles a batch in one call. Returns it if the store cannot do so now.
    pub(crate) async fn settle(&self, mut batch: SettlementBatch) -> Result<(), (SettlementBatch, Error)> {
        if batch.is_empty() {
            return Ok(());
        }
        let verdicts = match self.try_settle(batch.settlements()).await {
            Ok(verdicts) => verdicts,
            Err(error) if is_job_error(&error) => self.settle_one_by_one(batch.settlements()).await,
            Err(error) => {
                batch.unanswered |= matches!(error, Error::Unanswered { .. });
                return Err((batch, error));
            }
        };
        let unanswered = batch.unanswered;
        let mut unknown = batch.take_unknown(&verdicts);
        let known = verdicts.into_iter().filter(|verdict| *verdict != Verdict::Unknown);
        self.finish_jobs(batch.into_ended_jobs().into_iter().zip(known).collect(), unanswered);
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.unanswered = true;
        let message = format!("a shard of the store did not answer for {} settlements", unknown.len());
        Err((unknown, Error::Unanswered { message, source: None }))
    }

    /// Isolates the settlement that the store rejects, so that it does not block the others.
    async fn settle_one_by_one(&self, settlements: &[Settlement]) -> Vec<Verdict> {
        let mut backoff = self.shared.backoff("settling a job");
        let mut verdicts = Vec::with_capacity(settlements.len());
        while let Some(settlement) = settlements.get(verdicts.len()) {
            match self.try_settle(std::slice::from_ref(settlement)).await {
                Ok(verdict) if verdict == [Verdict::Unknown] => sleep(RETRY_PAUSE).await,
                Ok(verdict) => verdicts.extend(verdict.into_iter().take(1)),
                Err(error) if is_job_error(&error) => {
                    let job = &settlement.lease.job;
                    error!("job {job} cannot be settled, its lease will expire: {}", error.full_message());
                    verdicts.push(Verdict::LeaseLost);
                }
                Err(error) => sleep(backoff.record_failure(&error)).await,
            }
        }
        verdicts
    }

    async fn try_settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        let verdicts = with_timeout(
            CALL_TIMEOUT,
            "settle",
            self.shared.store.settle(SettleParams::current(settlements)),
        )
        .await?;
        if verdicts.len() == settlements.len() {
            return Ok(verdicts);
        }
        let message = format!("{} verdicts on {} settlements", verdicts.len(), settlements.len());
        Err(Error::Unavailable { message, source: None })
    }

    /// Updates counters, publishes events and releases the leases. `unanswered` says whether an
    /// earlier call got no answer.
    fn finish_jobs(&self, ended: Vec<(EndedJob, Verdict)>, unanswered: bool) {
        let epochs: Vec<_> = ended.iter().map(|(ended_job, _)| ended_job.epoch).collect();
        let count = |(ended_job, store_verdict): (EndedJob, Verdict)| {
            let counters = &self.shared.queue_slots[ended_job.queue_index].counters;
            let verdict = if unanswered { assumed_verdict(&ended_job, store_verdict) } else { store_verdict };
            match verdict {
                Verdict::Accepted => counters.ended(ended_job.event_kind),
                Verdict::LeaseLost | Verdict::Unknown => counters.lost(),
            }
            self.emit_event(&ended_job, verdict);
            if let Some(job) = &ended_job.job {
                // The callback receives the store's verdict, not the assumed one.
                job.settled(store_verdict);
            }
            ended_job.job
        };
        // Collected before the lock is taken, so that the lock covers the removal only.
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
            // An error means that there are no subscribers.
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

/// The verdict after an unanswered call. If the lease is gone although it cannot have expired, that
/// call has settled the job.
fn assumed_verdict(ended_job: &EndedJob, verdict: Verdict) -> Verdict {
    let is_held = |job: &Arc<ClaimedJob>| job.is_known_held() && !job.stop.is_lost();
    if ended_job.job.as_ref().is_some_and(is_held) { Verdict::Accepted } else { verdict }
}

/// Returns the call if it takes too long.
async fn return_if_slow(mut call: SettleCall<'_>) -> Option<SettleCall<'_>> {
    timeout(SLOW_CALL_AFTER, &mut call).await.is_err().then_some(call)
}

fn is_lost(ended_job: &EndedJob) -> bool {
    ended_job.job.as_ref().is_some_and(|job| job.stop.is_lost())
}

/// Whether the error is about the settlement rather than the store.
fn is_job_error(error: &Error) -> bool {
    error.is_invalid() || error.is_not_found() || matches!(error, Error::Corrupt(_))
}
