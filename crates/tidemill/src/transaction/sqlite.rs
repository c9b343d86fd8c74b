//! Transactions of rusqlite. They are synchronous: the job exists in the transaction when the call
//! returns.

use std::fmt;
use std::slice::from_ref;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::chain::IntoCompletion;
use tidemill_core::client::{Enqueue, EnqueueBulk};
use tidemill_core::store::{CompleteParams, Completed, Enqueued};
use tidemill_core::{Client, Error, Job, JobHandle, JobId};
use tidemill_sqlite::rusqlite::{Connection, Transaction};
use tidemill_sqlite::{PendingWakes, SqliteStore};

use super::{CompleteIn, EnqueueIn, TypedStore, downcast_store};

const STORE_NAME: &str = "SQLite";

/// The result of a call in a transaction that has not committed yet.
#[must_use = "after the commit call `.committed()`: it wakes workers at once"]
pub struct AwaitingCommit<T> {
    value: T,
    store: TypedStore<SqliteStore>,
    /// Wake-ups to publish after the commit. Dropped with this value if there is no commit.
    pending: PendingWakes,
}

impl<T> AwaitingCommit<T> {
    /// The result. Other connections see it only after the commit.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Publishes the wake-ups. Call it after the commit; otherwise workers notice the jobs a moment
    /// later.
    pub fn committed(self) -> T {
        if let Ok(store) = self.store.get() {
            store.announce(self.pending);
        }
        self.value
    }
}

impl<O> AwaitingCommit<JobHandle<O>> {
    /// The job's id.
    pub fn id(&self) -> &JobId {
        self.value.id()
    }
}

impl<T: fmt::Debug> fmt::Debug for AwaitingCommit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AwaitingCommit").field(&self.value).finish()
    }
}

impl<O: DeserializeOwned> EnqueueIn<&Transaction<'_>> for Enqueue<O> {
    type Output = Result<AwaitingCommit<JobHandle<O>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Output {
        self.enqueue_in(&**tx)
    }
}

/// For the connection that [`sqlite::done`](crate::sqlite::done) passes to its closure.
impl<O: DeserializeOwned> EnqueueIn<&Connection> for Enqueue<O> {
    type Output = Result<AwaitingCommit<JobHandle<O>>, Error>;

    fn enqueue_in(self, tx: &Connection) -> Self::Output {
        let prepared = self.prepare()?;
        let store = downcast_store::<SqliteStore>(prepared.client(), STORE_NAME)?;
        let (enqueued, pending) = store.get()?.enqueue_in(tx, &prepared.queue, from_ref(&prepared.job))?;
        Ok(AwaitingCommit {
            value: prepared.handle(enqueued.first().unwrap_or(&Enqueued::Created)),
            store,
            pending,
        })
    }
}

impl<P: Serialize> EnqueueIn<&Transaction<'_>> for EnqueueBulk<P> {
    type Output = Result<AwaitingCommit<Vec<JobId>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Output {
        let store = downcast_store::<SqliteStore>(self.client(), STORE_NAME)?;
        let (queue, jobs) = self.prepare()?;
        let (_, pending) = store.get()?.enqueue_in(tx, &queue, &jobs)?;
        Ok(AwaitingCommit { value: jobs.into_iter().map(|job| job.id).collect(), store, pending })
    }
}

impl CompleteIn<&Transaction<'_>> for Client {
    type Output = Result<AwaitingCommit<Completed>, Error>;

    fn complete_in<J: Job>(&self, tx: &Transaction<'_>, job: &JobId, output: J::Output) -> Self::Output {
        let store = downcast_store::<SqliteStore>(self, STORE_NAME)?;
        let ended = |store, value| Ok(AwaitingCommit { value, store, pending: PendingWakes::default() });
        let Some(info) = store.get()?.get_in(tx, job)? else { return ended(store, Completed::NotFound) };
        let change = match self.decide_completion(job, &info, Some(J::KIND), output.into_completion(true)?)? {
            Ok(change) => change,
            Err(completed) => return ended(store, completed),
        };
        let (value, pending) =
            store.get()?.complete_in(tx, CompleteParams { job: &info.job, change: &change })?;
        Ok(AwaitingCommit { value, store, pending })
    }
}
