//! Transactions of tokio-postgres, and of sqlx.

use std::slice::from_ref;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::chain::{End, Output};
use tidemill_core::client::{Bulk, Enqueue};
use tidemill_core::settle::Change;
use tidemill_core::store::{Complete, Completed, Enqueued, NewJob};
use tidemill_core::{Error, Handle, Job, JobId, Mill, Queue, Store};
use tidemill_postgres::{PostgresStore, Tx, tokio_postgres};

use super::{CompleteIn, InTransaction, Of, Promised, store_of};

/// What a call in a transaction comes to.
type Made<'t, T> = BoxFuture<'t, Result<Promised<T>, Error>>;

fn store(mill: &Mill) -> Result<Of<PostgresStore>, Error> {
    store_of(mill, "PostgreSQL")
}

fn committed(store: &Of<PostgresStore>, queue: &Queue) {
    if let Ok(store) = store.get() {
        store.committed(queue);
    }
}

fn promise<O: DeserializeOwned>(
    prepared: tidemill_core::client::Prepared<O>,
    made: &[Enqueued],
    store: Of<PostgresStore>,
) -> Promised<Handle<O>> {
    let queue = prepared.queue.clone();
    let handle = prepared.handle(made.first().unwrap_or(&Enqueued::Created));
    Promised::new(handle).announce(move || committed(&store, &queue))
}

fn promise_all(queue: Queue, jobs: Vec<NewJob>, store: Of<PostgresStore>) -> Promised<Vec<JobId>> {
    let ids = jobs.into_iter().map(|job| job.id).collect();
    Promised::new(ids).announce(move || committed(&store, &queue))
}

/// What completing comes to, decided from how the job is now.
async fn decide(
    mill: &Mill,
    job: &JobId,
    kind: &str,
    end: Result<End, Error>,
) -> Result<Result<(JobId, Option<Queue>, Change), Completed>, Error> {
    let Some(info) = mill.store().get(job).await? else { return Ok(Err(Completed::NotFound)) };
    let change = mill.decide_completion(job, &info, Some(kind), end?)?;
    Ok(change.map(|change| {
        let queue = match &change {
            Change::Continue(step) => Some(step.queue.clone()),
            _ => info.queue,
        };
        (info.job, queue, change)
    }))
}

/// Writes the three for one kind of transaction; they differ in nothing else.
macro_rules! in_transactions_of {
    ($tx:ty, [$($lifetime:lifetime)?]) => {
        impl<'t, $($lifetime,)? O: DeserializeOwned + 't> InTransaction<&'t mut $tx> for Enqueue<O> {
            type Made = Made<'t, Handle<O>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Made {
                Box::pin(async move {
                    let prepared = self.prepare()?;
                    let store = store(prepared.mill())?;
                    let made = store.get()?.enqueue_in(tx, &prepared.queue, from_ref(&prepared.job)).await?;
                    Ok(promise(prepared, &made, store))
                })
            }
        }

        impl<'t, $($lifetime,)? P: Serialize + Send + 't> InTransaction<&'t mut $tx> for Bulk<P> {
            type Made = Made<'t, Vec<JobId>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Made {
                Box::pin(async move {
                    let store = store(self.mill())?;
                    let (queue, jobs) = self.prepare()?;
                    store.get()?.enqueue_in(tx, &queue, &jobs).await?;
                    Ok(promise_all(queue, jobs, store))
                })
            }
        }

        impl<'t $(, $lifetime)?> CompleteIn<&'t mut $tx> for Mill {
            type Made = Made<'t, Completed>;

            fn complete_in<J: Job>(&self, tx: &'t mut $tx, job: &JobId, output: J::Output) -> Self::Made {
                let (mill, job, end) = (self.clone(), job.clone(), output.end(true));
                Box::pin(async move {
                    let (job, queue, change) = match decide(&mill, &job, J::KIND, end).await? {
                        Ok(decided) => decided,
                        Err(completed) => return Ok(Promised::new(completed)),
                    };
                    let store = store(&mill)?;
                    let completed = store.get()?.complete_in(tx, Complete { job: &job, change: &change }).await?;
                    let tell = move || queue.iter().for_each(|queue| committed(&store, queue));
                    Ok(Promised::new(completed).announce(tell))
                })
            }
        }
    };
}

in_transactions_of!(tokio_postgres::Transaction<'c>, ['c]);
in_transactions_of!(Tx, []);
