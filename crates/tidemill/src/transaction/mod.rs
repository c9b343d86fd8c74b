//! Enqueueing and completing jobs in the user's own transactions.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::marker::PhantomData;
use std::sync::Arc;

pub use tidemill_core::transaction::{Committed, Done, TransactionClaim, Uncommitted};
use tidemill_core::{Client, Error, Job, JobId, Store};

/// Enqueues jobs in a transaction of the store's driver. The jobs exist, and workers wake up, only
/// after the commit.
///
/// `Tx` is `&mut tokio_postgres::Transaction`, `&mut tidemill::postgres::Tx` or `&mut
/// sqlx::PgConnection` (feature `sqlx`; a `sqlx::Transaction` derefs to it): these return futures.
/// With `&rusqlite::Transaction` the call is synchronous.
pub trait EnqueueIn<Tx>: Sized {
    /// The pending job, or a future of it.
    type Output;

    /// Enqueues the job, or the jobs, in `tx`.
    fn enqueue_in(self, tx: Tx) -> Self::Output;
}

/// Completes jobs from outside their handler, in a transaction of the store's driver.
pub trait CompleteIn<Tx> {
    /// The pending answer, or a future of it.
    type Output;

    /// Ends a job of type `J` as if its handler had returned `output`, as [`Client::complete`]
    /// does.
    fn complete_in<J: Job>(&self, tx: Tx, job: &JobId, output: J::Output) -> Self::Output;
}

/// The client's store, if its type is `S`.
pub(crate) fn downcast_store<S: Store>(
    client: &Client,
    wanted: &'static str,
) -> Result<TypedStore<S>, Error> {
    if client.store().as_any().is::<S>() {
        return Ok(TypedStore { store: client.store().clone(), kind: PhantomData });
    }
    Err(Error::Invalid(format!("this transaction belongs to {wanted}, but the store is another database")))
}

/// A store whose concrete type is `S`.
pub(crate) struct TypedStore<S> {
    store: Arc<dyn Store>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Store> TypedStore<S> {
    /// The store as its concrete type.
    pub(crate) fn get(&self) -> Result<&S, Error> {
        let wrong_type = || Error::Invalid("the store has another type".into());
        self.store.as_any().downcast_ref().ok_or_else(wrong_type)
    }
}
