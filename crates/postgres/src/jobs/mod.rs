//! The job verbs, one file each.

mod adjust_for_clock_step;
mod cancel;
mod claim;
mod complete;
mod delete;
mod drop_dead;
mod enqueue;
mod enqueue_dependent;
mod extend;
mod group_commit;
mod grouped;
mod job_row;
mod lease_low_water_mark;
mod list_expired;
mod low_water_mark;
mod partial;
mod promote;
mod prune;
mod queue_ids;
mod receipt;
mod recover;
mod redrive;
mod settle;
mod start;

use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::clock::millis;
use tidemill_core::store::{
    Cancelled, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, EnqueueParams, Enqueued,
    ExpiredLeases, ExtendParams, Extended, Jobs, ListExpiredParams, PromoteParams, Promoted, Pruned,
    RecoverParams, RedriveParams, SettleParams, StartParams, Verdict,
};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue, QueueName, Token};
use tokio_postgres::Row;

use crate::store::PostgresStore;
#[cfg(feature = "sqlx")]
pub(crate) use complete::{ContinueArgs, FinishArgs};
pub(crate) use complete::{EndArgs, completed_from_outcome, state_code, wake_texts};
#[cfg(feature = "sqlx")]
pub(crate) use enqueue::JobColumns;
pub(crate) use enqueue::{delay_ms, earliest, wakes};
#[cfg(feature = "sqlx")]
pub(crate) use enqueue_dependent::outcomes;
pub(crate) use enqueue_dependent::{DependentColumns, chain_ids, no_rows, outcomes_from_row};
pub(crate) use group_commit::GroupCommit;
pub(crate) use grouped::{ClaimKey, keys};
pub(crate) use job_row::JobRow;
pub(crate) use lease_low_water_mark::LeaseLowWaterMark;
pub(crate) use low_water_mark::LowWaterMarks;
pub(crate) use partial::PartialSettles;
pub(crate) use promote::MAX_BATCH_ROWS;
pub(crate) use queue_ids::QueueIds;
pub(crate) use settle::SettledClaims;

#[async_trait]
impl Jobs for PostgresStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        if GroupCommit::accepts(jobs) {
            return self.announced(self.group_commit.enqueue(queue, jobs.to_vec()).await);
        }
        self.announced(self.inner.enqueue(queue, jobs).await)
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.claim(claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.recover(recover).await
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.inner.start(start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        self.inner.extend(extend).await
    }

    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.announced(self.inner.settle(settle).await)
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.inner.promote(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.inner.list_expired(expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        self.inner.adjust_for_clock_step(step).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.announced(self.inner.cancel(job).await)
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.announced(self.inner.complete(complete).await)
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.announced(self.inner.delete(chain).await)
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.announced(self.inner.redrive(redrive).await)
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.announced(self.inner.drop_dead(queue, jobs).await)
    }

    async fn prune(&self, _queues: &[Queue]) -> Result<Pruned, Error> {
        self.inner.prune().await
    }
}

/// How often to try a verb on a job that changes its state meanwhile. Each failure means that a
/// worker has claimed or settled the job in between, which does not happen a dozen times in a row.
pub(crate) const MAX_ATTEMPTS: usize = 12;

/// How a delivery guarantee is stored.
pub(crate) fn guarantee_code(guarantee: Guarantee) -> i16 {
    match guarantee {
        Guarantee::AtMostOnce => 0,
        Guarantee::AtLeastOnce => 1,
    }
}

/// The queue with this name and this code of its guarantee.
pub(crate) fn queue(name: &str, code: i16) -> Result<Queue, Error> {
    let guarantee = match code {
        0 => Guarantee::AtMostOnce,
        1 => Guarantee::AtLeastOnce,
        other => return Err(Error::Corrupt(format!("queue {name:?} has the guarantee {other}"))),
    };
    Ok(Queue { name: QueueName::new(name).map_err(corrupt)?, guarantee })
}

/// A stored job id.
pub(crate) fn job_id(text: &str) -> Result<JobId, Error> {
    JobId::new(text).map_err(corrupt)
}

/// The current job of a chain.
pub(crate) fn job_id_from_row(row: &Row) -> Result<JobId, Error> {
    job_id_at_step(row.get("id"), row.get("step"))
}

/// The job at this step of a chain.
pub(crate) fn job_id_at_step(chain: &str, step: i32) -> Result<JobId, Error> {
    let chain = job_id(chain)?;
    Ok(if step == 0 { chain } else { chain.at_step(step.unsigned_abs()) })
}

pub(crate) fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::Corrupt(error.to_string())
}

/// The lease of the job with this number.
fn lease(queue: &Queue, job: JobId, seq: i64) -> Lease {
    Lease { queue: queue.clone(), job, shard: 0, token: Token(u128::try_from(seq).unwrap_or_default()) }
}

/// A duration in milliseconds, limited so that it can be added to any time: a snooze for ever must
/// not fail the settlements in the same statement.
pub(crate) fn ms(duration: Duration) -> i64 {
    millis(duration).min(1 << 52)
}

/// The number in the token of a lease; -1, which no job has, for a token that this store never
/// assigned.
pub(crate) fn number(lease: &Lease) -> i64 {
    i64::try_from(lease.token.0).unwrap_or(-1)
}

/// The numbers of these leases in the order in which every statement locks them.
fn sorted(leases: &[Lease]) -> Vec<i64> {
    let mut numbers: Vec<_> = leases.iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
