//! Enqueueing and completing jobs in the user's own transactions.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod typed_store;

pub use tidemill_core::transaction::{Done, TransactionClaim, Uncommitted};
use tidemill_core::{Job, JobId};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use typed_store::{TypedStore, downcast_store};

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

    /// Ends a job of type `J` as if its handler had returned `output`, as
    /// [`Client::complete`](crate::Client::complete) does.
    fn complete_in<J: Job>(&self, tx: Tx, job: &JobId, output: J::Output) -> Self::Output;
}
