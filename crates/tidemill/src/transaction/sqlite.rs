//! Transactions of rusqlite, which are synchronous: what is made in one is made when the call returns.

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

use super::{CompleteIn, InTransaction, Of, store_of};

const WANTED: &str = "SQLite";

/// What will be there once a transaction has committed.
#[must_use = "after the commit call `.committed()`: it wakes workers at once"]
pub struct Promised<T> {
    value: T,
    store: Of<SqliteStore>,
    /// What there will be to tell: dropped with this if there is no commit.
    pending: PendingWakes,
}

impl<T> Promised<T> {
    /// What there will be. Until the commit nobody else can see it.
    pub fn promised(&self) -> &T {
        &self.value
    }

    /// The transaction has committed: wakes whoever waits. Without it they notice a moment later.
    pub fn committed(self) -> T {
        if let Ok(store) = self.store.get() {
            store.announce(self.pending);
        }
        self.value
    }
}

impl<O> Promised<JobHandle<O>> {
    /// The job's identity.
    pub fn id(&self) -> &JobId {
        self.value.id()
    }
}

impl<T: fmt::Debug> fmt::Debug for Promised<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Promised").field(&self.value).finish()
    }
}

impl<O: DeserializeOwned> InTransaction<&Transaction<'_>> for Enqueue<O> {
    type Made = Result<Promised<JobHandle<O>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Made {
        self.enqueue_in(&**tx)
    }
}

/// On the connection that a piece of work in [`sqlite::done`](crate::sqlite::done) is given.
impl<O: DeserializeOwned> InTransaction<&Connection> for Enqueue<O> {
    type Made = Result<Promised<JobHandle<O>>, Error>;

    fn enqueue_in(self, tx: &Connection) -> Self::Made {
        let prepared = self.prepare()?;
        let store = store_of::<SqliteStore>(prepared.client(), WANTED)?;
        let (made, pending) = store.get()?.enqueue_in(tx, &prepared.queue, from_ref(&prepared.job))?;
        Ok(Promised { value: prepared.handle(made.first().unwrap_or(&Enqueued::Created)), store, pending })
    }
}

impl<P: Serialize> InTransaction<&Transaction<'_>> for EnqueueBulk<P> {
    type Made = Result<Promised<Vec<JobId>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Made {
        let store = store_of::<SqliteStore>(self.client(), WANTED)?;
        let (queue, jobs) = self.prepare()?;
        let (_, pending) = store.get()?.enqueue_in(tx, &queue, &jobs)?;
        Ok(Promised { value: jobs.into_iter().map(|job| job.id).collect(), store, pending })
    }
}

impl CompleteIn<&Transaction<'_>> for Client {
    type Made = Result<Promised<Completed>, Error>;

    fn complete_in<J: Job>(&self, tx: &Transaction<'_>, job: &JobId, output: J::Output) -> Self::Made {
        let store = store_of::<SqliteStore>(self, WANTED)?;
        let ended = |store, value| Ok(Promised { value, store, pending: PendingWakes::default() });
        let Some(info) = store.get()?.get_in(tx, job)? else { return ended(store, Completed::NotFound) };
        let change = match self.decide_completion(job, &info, Some(J::KIND), output.into_completion(true)?)? {
            Ok(change) => change,
            Err(completed) => return ended(store, completed),
        };
        let (value, pending) =
            store.get()?.complete_in(tx, CompleteParams { job: &info.job, change: &change })?;
        Ok(Promised { value, store, pending })
    }
}
