//! Transactions of rusqlite, which are synchronous: what is made in one is made when the call returns.

use std::slice::from_ref;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::chain::Output;
use tidemill_core::client::{Bulk, Enqueue};
use tidemill_core::settle::Change;
use tidemill_core::store::{Complete, Completed};
use tidemill_core::{Error, Handle, Job, JobId, Mill, Queue};
use tidemill_sqlite::SqliteStore;
use tidemill_sqlite::rusqlite::{Connection, Transaction};

use super::{CompleteIn, InTransaction, Of, Promised, store_of};

const WANTED: &str = "SQLite";

impl<O: DeserializeOwned> InTransaction<&Transaction<'_>> for Enqueue<O> {
    type Made = Result<Promised<Handle<O>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Made {
        self.enqueue_in(&**tx)
    }
}

/// On the connection that a piece of work in [`sqlite::done`](crate::sqlite::done) is given.
impl<O: DeserializeOwned> InTransaction<&Connection> for Enqueue<O> {
    type Made = Result<Promised<Handle<O>>, Error>;

    fn enqueue_in(self, tx: &Connection) -> Self::Made {
        let prepared = self.prepare()?;
        let store = store_of::<SqliteStore>(prepared.mill(), WANTED)?;
        let made = store.get()?.enqueue_in(tx, &prepared.queue, from_ref(&prepared.job))?;
        let queue = prepared.queue.clone();
        let first = made.first().cloned().unwrap_or(tidemill_core::store::Enqueued::Created);
        Ok(Promised::new(prepared.handle(&first)).announce(move || committed(&store, &queue)))
    }
}

impl<P: Serialize> InTransaction<&Transaction<'_>> for Bulk<P> {
    type Made = Result<Promised<Vec<JobId>>, Error>;

    fn enqueue_in(self, tx: &Transaction<'_>) -> Self::Made {
        let store = store_of::<SqliteStore>(self.mill(), WANTED)?;
        let (queue, jobs) = self.prepare()?;
        store.get()?.enqueue_in(tx, &queue, &jobs)?;
        let ids = jobs.into_iter().map(|job| job.id).collect();
        Ok(Promised::new(ids).announce(move || committed(&store, &queue)))
    }
}

impl CompleteIn<&Transaction<'_>> for Mill {
    type Made = Result<Promised<Completed>, Error>;

    fn complete_in<J: Job>(&self, tx: &Transaction<'_>, job: &JobId, output: J::Output) -> Self::Made {
        let store = store_of::<SqliteStore>(self, WANTED)?;
        let Some(info) = store.get()?.get_in(tx, job)? else {
            return Ok(Promised::new(Completed::NotFound));
        };
        let change = match self.decide_completion(job, &info, Some(J::KIND), output.end(true)?)? {
            Ok(change) => change,
            Err(completed) => return Ok(Promised::new(completed)),
        };
        let completed = store.get()?.complete_in(tx, Complete { job: &info.job, change: &change })?;
        let queue = next_queue(&change).or(info.queue);
        Ok(Promised::new(completed).announce(move || queue.iter().for_each(|queue| committed(&store, queue))))
    }
}

/// Where the chain goes on.
pub(super) fn next_queue(change: &Change) -> Option<Queue> {
    match change {
        Change::Continue(step) => Some(step.queue.clone()),
        Change::Finish(_) | Change::Requeue { .. } | Change::Bury(_) => None,
    }
}

fn committed(store: &Of<SqliteStore>, queue: &Queue) {
    if let Ok(store) = store.get() {
        store.committed(queue);
    }
}
