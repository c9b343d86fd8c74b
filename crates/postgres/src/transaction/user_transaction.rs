//! Verbs inside a transaction on the user's own connection. Nothing is announced before the commit.

use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId, Queue};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};

use crate::PostgresStore;
use crate::connection::TypedParams;
use crate::error::classify;
use crate::inspect::MAX_NAMED_BLOCKERS;
use crate::jobs::{DependentColumns, JobRow, completed_from_outcome, no_rows, outcomes_from_row, wake_texts};

/// The wake-ups of a completion in a transaction, to be announced after the commit.
#[derive(Debug, Default)]
#[must_use = "workers are woken only if this is announced after the commit"]
pub struct PendingWakes(pub(super) Vec<String>);

impl PostgresStore {
    /// Adds jobs in the user's transaction, on a connection to the database of this store. The jobs
    /// exist when it commits, and do not if it is rolled back. After the commit, call
    /// [`committed`](Self::committed) to wake workers at once; otherwise they find the jobs when
    /// they poll.
    pub async fn enqueue_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        queue: &Queue,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        reserved_ids::check_new(jobs)?;
        let columns = DependentColumns::new(jobs)?;
        // Outside of the transaction: a queue stays for good, and other transactions must not wait
        // for this commit.
        let queue_id = self.inner.queue_id(queue).await?;
        let rows = self.call_in(client, &self.inner.calls.enqueue, &columns.params(&queue_id)).await?;
        let outcomes = outcomes_from_row(rows.first().ok_or_else(no_rows)?)?;
        Ok(outcomes.into_iter().map(|outcome| outcome.result).collect())
    }

    /// Ends a job from outside in the user's transaction. Pass the returned wake-ups to
    /// [`announce`](Self::announce) after the commit.
    pub async fn complete_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, PendingWakes), Error> {
        reserved_ids::check_removal(complete.job)?;
        let end = self.inner.end_args(complete.change).await?;
        let job = complete.job.as_str();
        let [a, b, c, d, e] = end.params();
        let params: [(&(dyn ToSql + Sync), Type); 6] = [(&job, Type::TEXT), a, b, c, d, e];
        let rows = self.call_in(client, self.inner.calls.complete(&end), &params).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        Ok((completed_from_outcome(row.get("outcome"))?, PendingWakes(wake_texts(row))))
    }

    /// Looks up a job as the user's transaction sees it, with the transaction's own changes.
    pub async fn get_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        job: &JobId,
    ) -> Result<Option<JobInfo>, Error> {
        let chain = job.chain();
        let params: [(&(dyn ToSql + Sync), Type); 2] =
            [(&chain.as_str(), Type::TEXT), (&MAX_NAMED_BLOCKERS, Type::INT8)];
        let rows = self.call_in(client, &self.inner.calls.get, &params).await?;
        rows.first().map(|row| JobRow::from_row(row).into_info()).transpose()
    }

    /// Wakes workers for this many jobs that a committed transaction of the user's has added to
    /// this queue.
    pub async fn committed(&self, queue: &Queue, jobs: usize) {
        // A claim also learns when the next job is due, so this wake-up serves scheduled jobs as
        // well.
        self.inner.bus.publish_and_flush(Wake::Queue { queue: queue.clone(), jobs }).await;
    }

    /// Announces what a committed transaction of the user's has completed.
    pub async fn announce(&self, pending: PendingWakes) {
        self.inner.announce_texts(pending.0).await;
        self.inner.bus.flush().await;
    }

    async fn call_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        text: &str,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, Error> {
        self.inner.pool.count_one();
        // Not prepared: statements must not be left on the user's connection, and this is one round
        // trip.
        client.query_typed(text, params).await.map_err(|error| classify("a transaction of the user's", error))
    }
}
