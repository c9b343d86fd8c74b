//! Jobs that are made and completed in transactions of the user's own.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::marker::PhantomData;
use std::sync::Arc;

pub use tidemill_core::transaction::{Committed, Done, TransactionClaim, Uncommitted};
use tidemill_core::{Client, Error, Job, JobId, Store};

/// Makes jobs in a transaction of the store's driver: nothing is there, and nobody is woken, before it commits.
///
/// `Tx` is `&mut tokio_postgres::Transaction`, `&mut tidemill::postgres::Tx`, `&mut sqlx::PgConnection` (with the feature `sqlx`;
/// a `sqlx::Transaction` derefs to it), each of which is awaited, or `&rusqlite::Transaction`, which is not.
pub trait InTransaction<Tx>: Sized {
    /// What comes of it: a job that is promised, or a future of one.
    type Made;

    /// Makes the job, or the jobs, in `tx`.
    fn enqueue_in(self, tx: Tx) -> Self::Made;
}

/// Completes jobs from outside, in a transaction of the store's driver.
pub trait CompleteIn<Tx> {
    /// What comes of it: an answer that is promised, or a future of one.
    type Made;

    /// Ends a job of type `J` as if its handler had returned `output`, as [`Client::complete`] does.
    fn complete_in<J: Job>(&self, tx: Tx, job: &JobId, output: J::Output) -> Self::Made;
}

/// The store behind a client, if it is of this kind.
pub(crate) fn store_of<S: Store>(client: &Client, wanted: &'static str) -> Result<Of<S>, Error> {
    if client.store().as_any().is::<S>() {
        return Ok(Of { store: client.store().clone(), kind: PhantomData });
    }
    Err(Error::Invalid(format!("this transaction is one of {wanted}, and the store is not")))
}

/// A store that is known to be of kind `S`.
pub(crate) struct Of<S> {
    store: Arc<dyn Store>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Store> Of<S> {
    /// The store as what it is.
    pub(crate) fn get(&self) -> Result<&S, Error> {
        let gone = || Error::Invalid("the store is of another kind".into());
        self.store.as_any().downcast_ref().ok_or_else(gone)
    }
}
