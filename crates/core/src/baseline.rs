//! The baseline of a store: the cheapest loop that its driver allows, for comparison in benchmarks.
//!
//! A baseline has no leases, tokens, retries or names. It moves the same bytes through the same
//! server in the same batch sizes. The difference to it is the cost of Tidemill.

use async_trait::async_trait;
use bytes::Bytes;

use crate::name::Guarantee;
use crate::store::Error;

/// A baseline loop on one store.
#[async_trait]
pub trait Baseline: Send + Sync {
    /// The server structure that the loop uses: `stream`, `list`, `table`.
    fn work(&self) -> &'static str;

    /// The guarantee of the queues that it is compared with.
    fn guarantee(&self) -> Guarantee;

    /// How many envelopes one [`enqueue`](Self::enqueue) and one [`claim`](Self::claim) move.
    fn batch(&self) -> BaselineBatch;

    /// Adds envelopes in one round trip, as cheaply as the server allows.
    async fn enqueue(&self, envelopes: &[Bytes]) -> Result<(), Error>;

    /// Adds envelopes in one round trip and one transaction, all or none, as Tidemill does. The
    /// default calls [`enqueue`](Self::enqueue), for stores whose every write is a transaction.
    async fn commit(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        self.enqueue(envelopes).await
    }

    /// Reads and acknowledges up to `max` envelopes; returns how many.
    async fn claim(&self, max: usize) -> Result<usize, Error>;

    /// Waits for one envelope, as fast as the server can notify, and acknowledges it. Returns
    /// `None` if the store cannot wait.
    async fn wait(&self) -> Result<Option<Bytes>, Error>;

    /// Runs one minimal transaction, as a program with the bare driver would: begin, one statement
    /// that reads or writes, commit. Returns `false` if the store has no user transactions.
    async fn transact(&self, work: BaselineWork) -> Result<bool, Error> {
        let _ = work;
        Ok(false)
    }

    /// Deletes everything that the loop created.
    async fn clear(&self) -> Result<(), Error>;
}

/// The statement in a baseline transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineWork {
    /// Reads a constant.
    Read,
    /// Writes one row.
    Write,
}

/// The batch sizes of a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaselineBatch {
    /// Envelopes added in one call.
    pub enqueue: usize,
    /// Envelopes read and acknowledged in one call.
    pub claim: usize,
}
