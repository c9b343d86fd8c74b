//! Taking part in transactions: of the user's own connections, and of connections that the store lends.

mod calls;
mod foreign;
#[cfg(feature = "sqlx")]
mod sqlx;
mod work;

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

pub(crate) use calls::Calls;
pub use foreign::Pending;

use crate::error::{classify, has_failed_before};
use crate::found::Found;
use crate::guests::Guest;
use crate::inspect::NAMED;
use crate::jobs::{Linked, completed, nothing, read_made, wakes, woken};
use crate::pool::in_time;
use crate::{Inner, PostgresStore};

/// A transaction on a connection of the store's, for handlers: what it does and the end of the job are committed
/// together by [`done`](Self::done), or by itself by [`commit`](Self::commit). Dropped, it is rolled back.
///
/// It is a [`Client`] with a transaction open. The connection has the settings of the URL and the role, and is used
/// again by others: change settings with `SET LOCAL`.
pub struct Tx {
    inner: Arc<Inner>,
    guest: Arc<Guest>,
    /// What is to be announced after the commit.
    news: Mutex<Vec<String>>,
    /// Whether the transaction is known to have ended, so that the connection can be used again as it is.
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl PostgresStore {
    /// Begins a transaction on a connection of the store's. At most [`Options::connections`](crate::Options) are open at
    /// once; whoever wants one more waits.
    pub async fn begin(&self) -> Result<Tx, Error> {
        let inner = self.inner.clone();
        let permit = inner.pool.guests.admit().await?;
        let guest = in_time("opening a connection", inner.pool.guest()).await?;
        // The answer is not waited for: if there is none, the first statement gets none either.
        let begun = guest.client.simple_query_raw("BEGIN").await;
        begun.map(drop).map_err(|error| classify("BEGIN", error))?;
        inner.pool.count_one();
        Ok(Tx { inner, guest, news: Mutex::default(), ended: false, _permit: permit })
    }
}

impl Tx {
    /// Makes jobs when the transaction commits, like [`Store::enqueue`](tidemill_core::Store::enqueue).
    pub async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        reserved_ids::check_new(jobs)?;
        let linked = Linked::of(jobs)?;
        let number = self.inner.number(queue).await?;
        let rows = self.call(&self.inner.calls.enqueue, &linked.params(&number)).await?;
        let made = read_made(rows.first().ok_or_else(nothing)?)?;
        let wakes = wakes(queue, jobs, &made, self.inner.pool.clock.now());
        self.remember(wakes.iter().map(Wake::to_string));
        Ok(made.into_iter().map(|made| made.answer).collect())
    }

    /// Ends a job from outside when the transaction commits, like
    /// [`Store::complete`](tidemill_core::Store::complete).
    pub async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        reserved_ids::check_removal(complete.job)?;
        let closing = self.inner.closing(complete.change).await?;
        let job = complete.job.as_str();
        let [a, b, c, d, e] = closing.params();
        let params: [(&(dyn ToSql + Sync), Type); 6] = [(&job, Type::TEXT), a, b, c, d, e];
        let rows = self.call(self.inner.calls.complete(&closing), &params).await?;
        let row = rows.first().ok_or_else(nothing)?;
        self.remember(woken(row));
        completed(row.get("outcome"))
    }

    /// Looks up a job as this transaction sees it, like [`Store::get_job`](tidemill_core::Store::get_job).
    pub async fn get(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let chain = job.chain();
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&chain.as_str(), Type::TEXT), (&NAMED, Type::INT8)];
        let rows = self.call(&self.inner.calls.get, &params).await?;
        rows.first().map(|row| Found::read(row).into_info()).transpose()
    }

    /// Prepares a statement, once per connection. Through a pooler it is prepared each time and has to be dropped before
    /// the transaction ends: the connection to the server is another's then.
    pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        self.guest.prepare(sql).await
    }

    /// Commits, and announces what was made.
    ///
    /// An error that [is transient](Error::is_transient) means that it is not known whether it took place.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.inner.pool.count_one();
        // COMMIT of a transaction that has failed says it was well and rolls back; a statement before it does not.
        let answer = self.guest.client.batch_execute("SELECT; COMMIT").await;
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

    /// Undoes everything.
    pub async fn rollback(mut self) -> Result<(), Error> {
        self.inner.pool.count_one();
        let answer = self.guest.client.batch_execute("ROLLBACK").await;
        self.ended = answer.is_ok();
        answer.map_err(|error| classify("ROLLBACK", error))
    }

    /// The end of the job with this output, together with everything done in this transaction: what an atomic
    /// handler returns.
    pub fn done<O: IntoCompletion>(self, output: O) -> Done<O> {
        Done::new(Box::new(work::Work::new(self, output)))
    }

    async fn call(
        &self,
        text: &str,
        params: crate::connection::TypedParams<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.inner.pool.count_one();
        self.guest.query(text, params).await.map_err(|error| classify("a transaction", error))
    }

    fn remember(&self, words: impl IntoIterator<Item = String>) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).extend(words);
    }

    /// Announces what was made in the transaction, and this. Says whether there was anything.
    async fn announce(&self, more: Vec<String>) -> bool {
        let mut words = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        words.extend(more);
        let any = !words.is_empty();
        self.inner.announce_woken(words).await;
        any
    }
}

impl Deref for Tx {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.guest.client
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let guests = &self.inner.pool.guests;
        match self.ended {
            true => guests.put(self.guest.clone()),
            false => guests.put_rolled_back(self.guest.clone()),
        }
    }
}
