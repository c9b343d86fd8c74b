//! The job verbs: what each does to the rows, inside a transaction that the writer opens and
//! commits.

mod adjust_for_clock_step;
mod cancel;
mod claim;
mod complete;
mod delete;
mod detached_job;
mod drop_dead;
mod enqueue;
mod extend;
mod job_row;
mod list_expired;
mod peek;
mod promote;
mod prune;
mod recover;
mod redrive;
mod settle;
mod start;
mod waiting;

use async_trait::async_trait;
use tidemill_core::store::{
    Cancelled, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, EnqueueParams, Enqueued,
    ExpiredLeases, ExtendParams, Extended, Jobs, ListExpiredParams, PromoteParams, Promoted, Pruned,
    RecoverParams, RedriveParams, SettleParams, StartParams, Verdict,
};
use tidemill_core::{Error, JobId, Queue};

use crate::store::SqliteStore;
pub(crate) use cancel::cancel_for_run;
pub(crate) use complete::complete_one;
pub(crate) use detached_job::insert_record;
pub(crate) use enqueue::{due_time, insert_all};
pub(crate) use job_row::{JobRow, JobRowState, delete_row, find};
pub(crate) use prune::prune;
pub(crate) use settle::{is_current, settle_one};
pub(crate) use waiting::insert_and_announce;

#[async_trait]
impl Jobs for SqliteStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        enqueue::enqueue(self, enqueue).await
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        claim::claim(self, claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        recover::recover(self, recover).await
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        start::start(self, start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        extend::extend(self, extend).await
    }

    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        settle::settle(self, settle).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        promote::promote(self, promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        list_expired::list_expired(self, expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        adjust_for_clock_step::adjust_for_clock_step(self, step).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        cancel::cancel(self, job).await
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        complete::complete(self, complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        delete::delete(self, chain).await
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        redrive::redrive(self, redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        drop_dead::drop_dead(self, queue, jobs).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        prune::prune(self, queues).await
    }
}
