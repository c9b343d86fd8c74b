//! Verbs inside transactions: on the user's own connections, and on connections of the store.

mod done;
mod function_calls;
#[cfg(feature = "sqlx")]
mod sqlx;
mod user_transaction;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::chain::IntoCompletion;
use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob, reserved_ids};
use tidemill_core::transaction::Done;
use tidemill_core::wake::Wake;
use tidemill_core::{Clock, Error, JobId, Queue};
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

pub(crate) use function_calls::FunctionCalls;
pub use user_transaction::PendingWakes;

use crate::connection::{UserConnection, with_timeout};
use crate::error::{classify, has_failed_before};
use crate::inspect::MAX_NAMED_BLOCKERS;
use crate::jobs::{
    DependentColumns, JobRow, completed_from_outcome, no_rows, outcomes_from_row, wake_texts, wakes,
};
use crate::{Inner, PostgresStore};

/// A transaction on a connection of the store, for handlers. [`done`](Self::done) commits it
/// together with the end of the job, [`commit`](Self::commit) by itself. Dropping it rolls it back.
///
/// It is a [`Client`] with an open transaction. The connection has the settings of the URL and the
/// role, and is reused by others: change settings with `SET LOCAL`.
pub struct Tx {
    inner: Arc<Inner>,
    connection: Arc<UserConnection>,
    /// The wake-ups to publish after the commit.
    wake_texts: Mutex<Vec<String>>,
    /// Whether the transaction is known to have ended, so that the connection can be reused as it
    /// is.
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl PostgresStore {
    /// Begins a transaction on a connection of the store. At most
    /// [`PostgresOptions::connections`](crate::PostgresOptions) are open at once; further callers
    /// wait.
    pub async fn begin(&self) -> Result<Tx, Error> {
        let inner = self.inner.clone();
        let permit = inner.pool.user_connections.acquire_permit().await?;
        let connection = with_timeout("opening a connection", inner.pool.user_connection()).await?;
        // The response is not awaited: if there is none, the first statement gets none either.
        let begun = connection.client.simple_query_raw("BEGIN").await;
        begun.map(drop).map_err(|error| classify("BEGIN", error))?;
        inner.pool.count_one();
        Ok(Tx { inner, connection, wake_texts: Mutex::default(), ended: false, _permit: permit })
    }
}

impl Tx {
    /// Adds jobs when the transaction commits, like
    /// [`Jobs::enqueue`](tidemill_core::store::Jobs::enqueue).
    pub async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        reserved_ids::check_new(jobs)?;
        let columns = DependentColumns::new(jobs)?;
        let queue_id = self.inner.queue_id(queue).await?;
        let rows = self.call(&self.inner.calls.enqueue, &columns.params(&queue_id)).await?;
        let outcomes = outcomes_from_row(rows.first().ok_or_else(no_rows)?)?;
        let wakes = wakes(queue, jobs, &outcomes, self.inner.pool.clock.now());
        self.remember(wakes.iter().map(Wake::to_string));
        Ok(outcomes.into_iter().map(|outcome| outcome.result).collect())
    }

    /// Ends a job from outside when the transaction commits, like
    /// [`Jobs::complete`](tidemill_core::store::Jobs::complete).
    pub async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        reserved_ids::check_removal(complete.job)?;
        let end = self.inner.end_args(complete.change).await?;
        let job = complete.job.as_str();
        let [a, b, c, d, e] = end.params();
        let params: [(&(dyn ToSql + Sync), Type); 6] = [(&job, Type::TEXT), a, b, c, d, e];
        let rows = self.call(self.inner.calls.complete(&end), &params).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.remember(wake_texts(row));
        completed_from_outcome(row.get("outcome"))
    }

    /// Looks up a job as this transaction sees it, like
    /// [`Inspect::get_job`](tidemill_core::store::Inspect::get_job).
    pub async fn get(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let chain = job.chain();
        let params: [(&(dyn ToSql + Sync), Type); 2] =
            [(&chain.as_str(), Type::TEXT), (&MAX_NAMED_BLOCKERS, Type::INT8)];
        let rows = self.call(&self.inner.calls.get, &params).await?;
        rows.first().map(|row| JobRow::from_row(row).into_info()).transpose()
    }

    /// Prepares a statement, once per connection. Through a pooler it is prepared each time and
    /// must be dropped before the transaction ends, because another client gets the connection to
    /// the server then.
    pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        self.connection.prepare(sql).await
    }

    /// Commits, and announces the changes.
    ///
    /// After an error that [is transient](Error::is_transient) it is not known whether the commit
    /// took place.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.inner.pool.count_one();
        // COMMIT of a failed transaction reports success and rolls back. A statement before it
        // fails instead.
        let answer = self.connection.client.batch_execute("SELECT; COMMIT").await;
        answer.map_err(|error| match has_failed_before(&error) {
            true => Error::Invalid("a statement in the transaction had failed; nothing is committed".into()),
            false => classify("COMMIT", error),
        })?;
        self.ended = true;
        if self.announce(Vec::new()).await {
            self.inner.bus.flush().await;
        }
        Ok(())
    }

    /// Rolls back.
    pub async fn rollback(mut self) -> Result<(), Error> {
        self.inner.pool.count_one();
        let answer = self.connection.client.batch_execute("ROLLBACK").await;
        self.ended = answer.is_ok();
        answer.map_err(|error| classify("ROLLBACK", error))
    }

    /// The end of the job with this output, together with the changes of this transaction: what an
    /// atomic handler returns.
    pub fn done<O: IntoCompletion>(self, output: O) -> Done<O> {
        Done::new(Box::new(done::UncommittedWork::new(self, output)))
    }

    async fn call(
        &self,
        text: &str,
        params: crate::connection::TypedParams<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.inner.pool.count_one();
        self.connection.query(text, params).await.map_err(|error| classify("a transaction", error))
    }

    fn remember(&self, texts: impl IntoIterator<Item = String>) {
        self.wake_texts.lock().unwrap_or_else(PoisonError::into_inner).extend(texts);
    }

    /// Announces the changes of the transaction, and these wake-ups. Returns whether there were
    /// any.
    async fn announce(&self, more: Vec<String>) -> bool {
        let mut texts = std::mem::take(&mut *self.wake_texts.lock().unwrap_or_else(PoisonError::into_inner));
        texts.extend(more);
        let any = !texts.is_empty();
        self.inner.announce_texts(texts).await;
        any
    }
}

impl Deref for Tx {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.connection.client
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let pool = &self.inner.pool.user_connections;
        match self.ended {
            true => pool.put(self.connection.clone()),
            false => pool.roll_back_and_put(self.connection.clone()),
        }
    }
}
