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

use super::{CompleteIn, InTransaction, Of, store_of};

/// What will be there once a transaction has committed.
#[must_use = "after the commit call `.committed().await`: it wakes workers, which otherwise come by only to poll"]
pub struct Promised<T> {
    value: T,
    store: Of<PostgresStore>,
    news: News,
}

/// What there is to tell after the commit.
enum News {
    /// So many jobs on a queue.
    Jobs(Queue, usize),
    /// What a completion led to.
    Completion(PendingWakes),
    /// Nothing: the transaction tells it by itself, or there is nothing.
    None,
}

impl<T> Promised<T> {
    /// What there will be. Until the commit nobody else can see it.
    pub fn promised(&self) -> &T {
        &self.value
    }

    /// The transaction has committed: wakes whoever waits.
    pub async fn committed(self) -> T {
        if let Ok(store) = self.store.get() {
            match self.news {
                News::Jobs(queue, jobs) => store.committed(&queue, jobs).await,
                News::Completion(pending) => store.announce(pending).await,
                News::None => {}
            }
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

/// What a call in a transaction comes to.
type Made<'t, T> = BoxFuture<'t, Result<Promised<T>, Error>>;

fn store(client: &Client) -> Result<Of<PostgresStore>, Error> {
    store_of(client, "PostgreSQL")
}

/// What a transaction answers, and what there is to tell after its commit.
type Answer<'t, T> = BoxFuture<'t, Result<(T, News), Error>>;

/// A job that was looked up.
type Found<'t> = BoxFuture<'t, Result<Option<JobInfo>, Error>>;

/// A transaction that jobs can be made in.
trait Joined: Send {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> Answer<'t, Vec<Enqueued>>;

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> Answer<'t, Completed>;

    /// A job as the transaction sees it.
    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> Found<'t>;
}

fn news(queue: &Queue, made: &[Enqueued]) -> News {
    match made.iter().filter(|made| **made == Enqueued::Created).count() {
        0 => News::None,
        jobs => News::Jobs(queue.clone(), jobs),
    }
}

impl Joined for tokio_postgres::Transaction<'_> {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> Answer<'t, Vec<Enqueued>> {
        Box::pin(async move {
            let made = store.enqueue_in(self, queue, jobs).await?;
            let news = news(queue, &made);
            Ok((made, news))
        })
    }

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> Answer<'t, Completed> {
        Box::pin(async move {
            let (completed, pending) = store.complete_in(self, complete).await?;
            Ok((completed, News::Completion(pending)))
        })
    }

    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> Found<'t> {
        Box::pin(async move { store.get_in(self, job).await })
    }
}

/// Remembers by itself what there is to tell, and tells it when it commits.
impl Joined for Tx {
    fn enqueue<'t>(
        &'t mut self,
        _store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> Answer<'t, Vec<Enqueued>> {
        Box::pin(async move { Ok((Tx::enqueue(self, queue, jobs).await?, News::None)) })
    }

    fn complete<'t>(
        &'t mut self,
        _store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> Answer<'t, Completed> {
        Box::pin(async move { Ok((Tx::complete(self, complete).await?, News::None)) })
    }

    fn get<'t>(&'t mut self, _store: &'t PostgresStore, job: &'t JobId) -> Found<'t> {
        Box::pin(async move { Tx::get(self, job).await })
    }
}

#[cfg(feature = "sqlx")]
impl Joined for tidemill_postgres::sqlx::PgConnection {
    fn enqueue<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        queue: &'t Queue,
        jobs: &'t [NewJob],
    ) -> Answer<'t, Vec<Enqueued>> {
        Box::pin(async move {
            let made = store.enqueue_in_sqlx(self, queue, jobs).await?;
            let news = news(queue, &made);
            Ok((made, news))
        })
    }

    fn complete<'t>(
        &'t mut self,
        store: &'t PostgresStore,
        complete: CompleteParams<'t>,
    ) -> Answer<'t, Completed> {
        Box::pin(async move {
            let (completed, pending) = store.complete_in_sqlx(self, complete).await?;
            Ok((completed, News::Completion(pending)))
        })
    }

    fn get<'t>(&'t mut self, store: &'t PostgresStore, job: &'t JobId) -> Found<'t> {
        Box::pin(async move { store.get_in_sqlx(self, job).await })
    }
}

async fn enqueue_one<O: DeserializeOwned>(
    prepared: PreparedJob<O>,
    tx: &mut dyn Joined,
) -> Result<Promised<JobHandle<O>>, Error> {
    let store = store(prepared.client())?;
    let (made, news) = tx.enqueue(store.get()?, &prepared.queue, from_ref(&prepared.job)).await?;
    Ok(Promised { value: prepared.handle(made.first().unwrap_or(&Enqueued::Created)), store, news })
}

async fn enqueue_all(
    client: Client,
    prepared: Result<(Queue, Vec<NewJob>), Error>,
    tx: &mut dyn Joined,
) -> Result<Promised<Vec<JobId>>, Error> {
    let (store, (queue, jobs)) = (store(&client)?, prepared?);
    let (_, news) = tx.enqueue(store.get()?, &queue, &jobs).await?;
    Ok(Promised { value: jobs.into_iter().map(|job| job.id).collect(), store, news })
}

async fn complete_one<J: Job>(
    client: Client,
    job: JobId,
    end: Result<Completion, Error>,
    tx: &mut dyn Joined,
) -> Result<Promised<Completed>, Error> {
    let store = store(&client)?;
    let (value, news) = match tx.get(store.get()?, &job).await? {
        None => (Completed::NotFound, News::None),
        Some(info) => match client.decide_completion(&job, &info, Some(J::KIND), end?)? {
            Ok(change) => {
                tx.complete(store.get()?, CompleteParams { job: &info.job, change: &change }).await?
            }
            Err(completed) => (completed, News::None),
        },
    };
    Ok(Promised { value, store, news })
}

/// Says for one kind of transaction that jobs can be made and completed in it.
macro_rules! join {
    ($tx:ty $(, $lifetime:lifetime)?) => {
        impl<'t, $($lifetime,)? O: DeserializeOwned + 't> InTransaction<&'t mut $tx> for Enqueue<O> {
            type Made = Made<'t, JobHandle<O>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Made {
                Box::pin(async move { enqueue_one(self.prepare()?, tx).await })
            }
        }

        impl<'t, $($lifetime,)? P: Serialize> InTransaction<&'t mut $tx> for EnqueueBulk<P> {
            type Made = Made<'t, Vec<JobId>>;

            fn enqueue_in(self, tx: &'t mut $tx) -> Self::Made {
                let (client, prepared) = (self.client().clone(), self.prepare());
                Box::pin(enqueue_all(client, prepared, tx))
            }
        }

        impl<'t $(, $lifetime)?> CompleteIn<&'t mut $tx> for Client {
            type Made = Made<'t, Completed>;

            fn complete_in<J: Job>(&self, tx: &'t mut $tx, job: &JobId, output: J::Output) -> Self::Made {
                Box::pin(complete_one::<J>(self.clone(), job.clone(), output.into_completion(true), tx))
            }
        }
    };
}

join!(tokio_postgres::Transaction<'c>, 'c);
join!(Tx);
#[cfg(feature = "sqlx")]
join!(tidemill_postgres::sqlx::PgConnection);
