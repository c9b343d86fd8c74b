//! The floor under a store: the cheapest loop its driver allows, as a yardstick for our own.
//!
//! A floor knows no leases, tokens, retries or names. It moves the same bytes through the same server in the
//! same batch sizes and stops there; what Tidemill costs is the distance to it.

use async_trait::async_trait;
use bytes::Bytes;

use crate::name::Guarantee;
use crate::store::Error;

/// One raw loop on one store.
#[async_trait]
pub trait Baseline: Send + Sync {
    /// What kind of work it is: `stream`, `list`, `table`.
    fn work(&self) -> &'static str;

    /// The guarantee of the queues it is compared with.
    fn guarantee(&self) -> Guarantee;

    /// How many envelopes one [`enqueue`](Self::enqueue) takes and one [`take`](Self::take) moves.
    fn batch(&self) -> BaselineBatch;

    /// Adds envelopes in one trip, as cheaply as the server can.
    async fn enqueue(&self, envelopes: &[Bytes]) -> Result<(), Error>;

    /// Adds envelopes in one trip and one transaction: all of them or none, as Tidemill does it. A store whose every
    /// write is a transaction does so anyway.
    async fn commit(&self, envelopes: &[Bytes]) -> Result<(), Error> {
        self.enqueue(envelopes).await
    }

    /// Reads and acknowledges up to `max` envelopes; returns how many there were.
    async fn claim(&self, max: usize) -> Result<usize, Error>;

    /// Waits for one envelope, as fast as the server can tell, and acknowledges it; `None` where the store
    /// cannot wait.
    async fn wait(&self) -> Result<Option<Bytes>, Error>;

    /// One transaction with the least work there is, as a program using the driver alone would do it: begin, one
    /// statement that reads or writes, commit. `false` where the store has no transactions of the user's.
    async fn transact(&self, errand: BaselineWork) -> Result<bool, Error> {
        let _ = errand;
        Ok(false)
    }

    /// Removes everything the loop made.
    async fn clear(&self) -> Result<(), Error>;
}

/// What a transaction of a raw loop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineWork {
    /// It reads a constant.
    Read,
    /// It writes one row.
    Write,
}

/// The batch sizes of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaselineBatch {
    /// Envelopes added at once.
    pub enqueue: usize,
    /// Envelopes read and acknowledged at once.
    pub claim: usize,
}
