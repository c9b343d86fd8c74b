//! Transactions of tokio-postgres, of the store's own connections, and of sqlx.

use std::fmt;
use std::slice::from_ref;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::chain::{Completion, IntoCompletion};
use tidemill_core::client::{Enqueue, EnqueueBulk, PreparedJob};
use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob};
use tidemill_core::{Client, Error, Job, JobHandle, JobId, Queue};
use tidemill_postgres::{PendingWakes, PostgresStore, Tx, tokio_postgres};

use super::{CompleteIn, EnqueueIn, TypedStore, downcast_store};

/// The result of a call in a transaction that has not committed yet.
#[must_use = "after the commit call `.committed().await`: it wakes workers, which otherwise find the jobs only by polling"]
pub struct AwaitingCommit<T> {
    value: T,
    store: TypedStore<PostgresStore>,
    wakes: CommitWakes,
}

/// The wake-ups to publish after the commit.
enum CommitWakes {
    /// This many jobs on a queue.
    Jobs(Queue, usize),
    /// The wake-ups of a completion.
    Completion(PendingWakes),
    /// None, or the transaction publishes them when it commits.
    None,
}

impl<T> AwaitingCommit<T> {
    /// The result. Other connections see it only after the commit.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Publishes the wake-ups. Call it after the commit.
    ///
    /// # Cancel safety
    /// Cancel safe. Without the wake-up, workers find the job by polling.
    pub async fn committed(self) -> T {
        if let Ok(store) = self.store.get() {
            match self.wakes {
                CommitWakes::Jobs(queue, jobs) => store.committed(&queue, jobs).await,
                CommitWakes::Completion(pending) => store.announce(pending).await,
                CommitWakes::None => {}
            }
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

/// The future of a public call in a transaction.
type AwaitingCommitFuture<'t, T> = BoxFuture<'t, Result<AwaitingCommit<T>, Error>>;

fn store(client: &Client) -> Result<TypedStore<PostgresStore>, Error> {
    downcast_store(client, "PostgreSQL")
}

/// The future of a call of [`UserTransaction`]: its result and the wake-ups to publish.
type TransactionFuture<'t, T> = BoxFuture<'t, Result<(T, CommitWakes), Error>>;

/// The future of a job lookup.
type JobLookupFuture<'t> = BoxFuture<'t, Result<Option<JobInfo>, Error>>;

/// A transaction in which jobs can be enqueued and completed.
trait UserTransaction: Send {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> TransactionFuture<'t, Vec<Enqueued>>;

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> TransactionFuture<'t, Completed>;

    /// Reads a job as the transaction sees it.
    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> JobLookupFuture<'t>;
}

fn wakes(queue: &Queue, made: &[Enqueued]) -> CommitWakes {
    match made.iter().filter(|made| **made == Enqueued::Created).count() {
        0 => CommitWakes::None,
        jobs => CommitWakes::Jobs(queue.clone(), jobs),
    }
}

impl UserTransaction for tokio_postgres::Transaction<'_> {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> TransactionFuture<'t, Vec<Enqueued>> {
        Box::pin(async move {
            let made = store.enqueue_in(self, queue, jobs).await?;
            let wakes = wakes(queue, &made);
            Ok((made, wakes))
        })
    }

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> TransactionFuture<'t, Completed> {
        Box::pin(async move {
            let (completed, pending) = store.complete_in(self, complete).await?;
            Ok((completed, CommitWakes::Completion(pending)))
        })
    }

    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> JobLookupFuture<'t> {
        Box::pin(async move { store.get_in(self, job).await })
    }
}

/// Collects its wake-ups and publishes them when it commits.
impl UserTransaction for Tx {
    fn enqueue<'t>(
        &'t mut self,
        _store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> TransactionFuture<'t, Vec<Enqueued>> {
        Box::pin(async move { Ok((Tx::enqueue(self, queue, jobs).await?, CommitWakes::None)) })
    }

    fn complete<'t>(
        &'t mut self,
        _store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> TransactionFuture<'t, Completed> {
        Box::pin(async move { Ok((Tx::complete(self, complete).await?, CommitWakes::None)) })
    }

    fn get<'t>(&'t mut self, _store: &'t PostgresStore, job: &'t JobId) -> JobLookupFuture<'t> {
        Box::pin(async move { Tx::get(self, job).await })
    }
}

#[cfg(feature = "sqlx")]
impl UserTransaction for tidemill_postgres::sqlx::PgConnection {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> TransactionFuture<'t, Vec<Enqueued>> {
        Box::pin(async move {
            let made = store.enqueue_in_sqlx(self, queue, jobs).await?;
            let wakes = wakes(queue, &made);
            Ok((made, wakes))
        })
    }

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> TransactionFuture<'t, Completed> {
        Box::pin(async move {
            let (completed, pending) = store.complete_in_sqlx(self, complete).await?;
            Ok((completed, CommitWakes::Completion(pending)))
        })
    }

    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> JobLookupFuture<'t> {
        Box::pin(async move { store.get_in_sqlx(self, job).await })
    }
}

async fn enqueue_one<O: DeserializeOwned>(
    prepared: PreparedJob<O>,
    tx: &mut dyn UserTransaction,
) -> Result<AwaitingCommit<JobHandle<O>>, Error> {
    let store = store(prepared.client())?;
    let (made, wakes) = tx.enqueue(store.get()?, &prepared.queue, from_ref(&prepared.job)).await?;
    Ok(AwaitingCommit { value: prepared.handle(made.first().unwrap_or(&Enqueued::Created)), store, wakes })
}

async fn enqueue_all(
    client: Client,
    prepared: Result<(Queue, Vec<NewJob>), Error>,
    tx: &mut dyn UserTransaction,
) -> Result<AwaitingCommit<Vec<JobId>>, Error> {
    let (store, (queue, jobs)) = (store(&client)?, prepared?);
    let (_, wakes) = tx.enqueue(store.get()?, &queue, &jobs).await?;
    Ok(AwaitingCommit { value: jobs.into_iter().map(|job| job.id).collect(), store, wakes })
}

async fn complete_one<J: Job>(
    client: Client,
    job: JobId,
    end: Result<Completion, Error>,
    tx: &mut dyn UserTransaction,
) -> Result<AwaitingCommit<Completed>, Error> {
    let store = store(&client)?;
    let (value, wakes) = match tx.get(store.get()?, &job).await? {
        None => (Completed::NotFound, CommitWakes::None),
        Some(info) => match client.decide_completion(&job, &info, Some(J::KIND), end?)? {
            Ok(change) => {
                tx.complete(store.get()?, CompleteParams { job: &info.job, change: &change }).await?
            }
            Err(completed) => (completed, CommitWakes::None),
        },
    };
    Ok(AwaitingCommit { value, store, wakes })
}

/// Implements [`EnqueueIn`] and [`CompleteIn`] for one type of transaction.
macro_rules! impl_user_transaction {
    ($tx:ty $(, $lifetime:lifetime)?) => {
        impl<'t, $($lifetime,)? O: DeserializeOwned + 't> EnqueueIn<&'t mut $tx> for Enqueue<O> {
            type Output = AwaitingCommitFuture<'t, JobHandle<O>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Output {
                Box::pin(async move { enqueue_one(self.prepare()?, tx).await })
            }
        }

        impl<'t, $($lifetime,)? P: Serialize> EnqueueIn<&'t mut $tx> for EnqueueBulk<P> {
            type Output = AwaitingCommitFuture<'t, Vec<JobId>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Output {
                let (client, prepared) = (self.client().clone(), self.prepare());
                Box::pin(enqueue_all(client, prepared, tx))
            }
        }

        impl<'t $(, $lifetime)?> CompleteIn<&'t mut $tx> for Client {
            type Output = AwaitingCommitFuture<'t, Completed>;

            fn complete_in<J: Job>(&self, tx: &'t mut $tx, job: &JobId, output: J::Output) -> Self::Output {
                Box::pin(complete_one::<J>(self.clone(), job.clone(), output.into_completion(true), tx))
            }
        }
    };
}

impl_user_transaction!(tokio_postgres::Transaction<'c>, 'c);
impl_user_transaction!(Tx);
#[cfg(feature = "sqlx")]
impl_user_transaction!(tidemill_postgres::sqlx::PgConnection);
