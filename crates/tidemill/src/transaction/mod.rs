//! Jobs that are made and completed in transactions of the user's own.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;

use tidemill_core::{Error, Handle, Job, JobId, Mill, Queue, Store};

/// Makes jobs in a transaction of the store's driver: nothing is there, and nobody is woken, before it commits.
///
/// `Tx` is `&mut tokio_postgres::Transaction`, `&mut tidemill::postgres::Tx`, `&mut sqlx::PgConnection` (with the feature `sqlx`;
/// a `sqlx::Transaction` derefs to it), each of which is awaited, or `&rusqlite::Transaction`, which is not.
pub trait InTransaction<Tx>: Sized {
    /// What comes of it: a [`Promised`] job, or a future of one.
    type Made;

    /// Makes the job, or the jobs, in `tx`.
    fn enqueue_in(self, tx: Tx) -> Self::Made;
}

/// Completes jobs from outside, in a transaction of the store's driver.
pub trait CompleteIn<Tx> {
    /// What comes of it: a [`Promised`] answer, or a future of one.
    type Made;

    /// Ends a job of type `J` as if its handler had returned `output`, as [`Mill::complete`] does.
    fn complete_in<J: Job>(&self, tx: Tx, job: &JobId, output: J::Output) -> Self::Made;
}

/// What will be there once a transaction has committed.
#[must_use = "after the commit call `.committed()`: it wakes workers, which otherwise come by only to poll"]
pub struct Promised<T> {
    value: T,
    announce: Vec<Announce>,
}

/// Tells the world of what has become true.
type Announce = Box<dyn FnOnce() + Send>;

impl<T> Promised<T> {
    fn new(value: T) -> Self {
        Self { value, announce: Vec::new() }
    }

    fn announce(mut self, announce: impl FnOnce() + Send + 'static) -> Self {
        self.announce.push(Box::new(announce));
        self
    }

    /// What there will be. Until the commit nobody else can see it.
    pub fn promised(&self) -> &T {
        &self.value
    }

    /// The transaction has committed: wakes whoever waits.
    pub fn committed(self) -> T {
        self.announce.into_iter().for_each(|announce| announce());
        self.value
    }
}

impl<O> Promised<Handle<O>> {
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

/// The store behind a client, if it is of this kind.
fn store_of<S: Store>(mill: &Mill, wanted: &'static str) -> Result<Of<S>, Error> {
    if mill.store().as_any().is::<S>() {
        return Ok(Of { store: mill.store().clone(), kind: std::marker::PhantomData });
    }
    Err(Error::Invalid(format!("this transaction is one of {wanted}, and the store is not")))
}

/// A store that is known to be of kind `S`.
struct Of<S> {
    store: Arc<dyn Store>,
    kind: std::marker::PhantomData<fn() -> S>,
}

impl<S: Store> Of<S> {
    /// The store as what it is.
    fn get(&self) -> Result<&S, Error> {
        let gone = || Error::Invalid("the store is of another kind".into());
        self.store.as_any().downcast_ref().ok_or_else(gone)
    }
}

/// Where a job wakes workers.
fn queues(queue: &Queue) -> [Queue; 1] {
    [queue.clone()]
}
