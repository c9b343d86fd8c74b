//! Taking part in a transaction of the user's own connection: nothing is announced before its commit.

use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId, Queue};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};

use crate::PostgresStore;
use crate::connection::TypedParams;
use crate::error::classify;
use crate::found::Found;
use crate::inspect::NAMED;
use crate::jobs::{Linked, completed, nothing, read_made, woken};

/// What completing a job in a transaction leads to: to be announced after the commit.
#[derive(Debug, Default)]
#[must_use = "workers hear of it only if it is announced after the commit"]
pub struct Pending(pub(super) Vec<String>);

impl PostgresStore {
    /// Makes jobs in a transaction of the user's, of a connection to the database that holds this store: when it
    /// commits there are these jobs, and if it is rolled back there are none. After the commit, call
    /// [`committed`](Self::committed): workers hear of the jobs then, and without it when they next look.
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
        let linked = Linked::of(jobs)?;
        // Outside of the transaction: the name of a queue is for good, and others must not wait for this commit.
        let number = self.inner.number(queue).await?;
        let rows = self.call_in(client, &self.inner.calls.enqueue, &linked.params(&number)).await?;
        let made = read_made(rows.first().ok_or_else(nothing)?)?;
        Ok(made.into_iter().map(|made| made.answer).collect())
    }

    /// Ends a job from outside in a transaction of the user's. Pass what comes with the answer to
    /// [`announce`](Self::announce) after the commit.
    pub async fn complete_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, Pending), Error> {
        reserved_ids::check_removal(complete.job)?;
        let closing = self.inner.closing(complete.change).await?;
        let job = complete.job.as_str();
        let [a, b, c, d, e] = closing.params();
        let params: [(&(dyn ToSql + Sync), Type); 6] = [(&job, Type::TEXT), a, b, c, d, e];
        let rows = self.call_in(client, self.inner.calls.complete(&closing), &params).await?;
        let row = rows.first().ok_or_else(nothing)?;
        Ok((completed(row.get("outcome"))?, Pending(woken(row))))
    }

    /// Looks up a job as a transaction of the user's sees it: with what it has made or completed itself.
    pub async fn get_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        job: &JobId,
    ) -> Result<Option<JobInfo>, Error> {
        let chain = job.chain();
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&chain.as_str(), Type::TEXT), (&NAMED, Type::INT8)];
        let rows = self.call_in(client, &self.inner.calls.get, &params).await?;
        rows.first().map(|row| Found::read(row).into_info()).transpose()
    }

    /// Wakes workers for so many jobs that a committed transaction of the user's has made on this queue.
    pub async fn committed(&self, queue: &Queue, jobs: usize) {
        // Whoever looks also learns when the next one is due, so this holds for scheduled jobs as well.
        self.inner.bus.publish_and_flush(Wake::Queue { queue: queue.clone(), jobs }).await;
    }

    /// Announces what a committed transaction of the user's has completed.
    pub async fn announce(&self, pending: Pending) {
        self.inner.announce_woken(pending.0).await;
        self.inner.bus.flush().await;
    }

    async fn call_in<C: GenericClient + Sync>(
        &self,
        client: &C,
        text: &str,
        params: TypedParams<'_>,
    ) -> Result<Vec<Row>, Error> {
        self.inner.pool.count_one();
        // Not prepared: the connection is not ours to leave statements on, and this is one trip.
        client.query_typed(text, params).await.map_err(|error| classify("a transaction of the user's", error))
    }
}
