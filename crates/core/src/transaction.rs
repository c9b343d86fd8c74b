//! Ending a job together with work of the user's own: all of it or nothing.
//!
//! A handler that writes to the database that is also the store returns a [`Done`] instead of its output. It
//! carries that work, not yet committed; the worker ends the claim in the same transaction. If the lease is lost by
//! then, nothing of the work has happened.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;

use crate::backoff::Backoff;
use crate::chain::{Completion, IntoCompletion};
use crate::clock::Timestamp;
use crate::envelope::Envelope;
use crate::lease::Lease;
use crate::settle::{DecideContext, Outcome, Settlement, decide};
use crate::store::Error;

/// Work in a transaction of a store's own, not yet committed.
#[async_trait]
pub trait Uncommitted: Send {
    /// Ends the claim as the work says, commits both together, and announces what came of it.
    ///
    /// An error means that it is not known whether this took place. The caller may then settle the claim as if it
    /// had not: if it had, the lease is gone.
    async fn commit(self: Box<Self>, claim: &TransactionClaim) -> Result<Committed, Error>;
}

/// The claim that ends with the transaction.
#[derive(Debug, Clone)]
pub struct TransactionClaim {
    /// Whose lease.
    pub lease: Lease,
    /// The job.
    pub envelope: Envelope,
    /// The largest payload a chain may continue with.
    pub payload_limit: usize,
}

impl TransactionClaim {
    /// The settlement of a job that ended like this.
    pub fn settlement(&self, end: Completion, now: Timestamp) -> Result<Settlement, Error> {
        let outcome = match end {
            Completion::Output(output) => Outcome::Done(output),
            Completion::Continue(next) => {
                next.check(self.payload_limit)?;
                Outcome::Continue(next)
            }
        };
        let circumstances = DecideContext { now, backoff: Backoff::DEFAULT, random: 0.0 };
        Ok(Settlement { lease: self.lease.clone(), change: decide(&self.envelope, outcome, circumstances) })
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It took place, and the job has ended with it.
    Yes,
    /// It did not: the lease was not the current one.
    LeaseLost,
    /// It did not: the work itself failed, like this.
    Failed(Outcome),
}

/// The end of a job, together with work in a transaction. Returned by a handler in place of the output `O`.
#[must_use = "nothing is committed before the handler returns this"]
pub struct Done<O: IntoCompletion> {
    work: Box<dyn Uncommitted>,
    output: PhantomData<fn() -> O>,
}

impl<O: IntoCompletion> Done<O> {
    /// The end of a job whose output the work knows.
    pub fn new(work: Box<dyn Uncommitted>) -> Self {
        Self { work, output: PhantomData }
    }

    /// The work.
    pub fn into_work(self) -> Box<dyn Uncommitted> {
        self.work
    }
}

impl<O: IntoCompletion> fmt::Debug for Done<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}
