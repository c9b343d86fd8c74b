//! Transactions that end a job together with the user's own writes, atomically.
//!
//! A handler that writes to the store's database returns a [`Done`] instead of its output. It
//! contains the uncommitted transaction, in which the worker then settles the claim. If the lease
//! is lost by then, the transaction is rolled back.

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

/// The user's work in a transaction of the store's database, not yet committed.
#[async_trait]
pub trait Uncommitted: Send {
    /// Settles the claim in the transaction, commits it, and publishes the resulting wake-ups.
    ///
    /// Returns [`Outcome::Settled`] if that was done, or if the lease was not the current one and
    /// the transaction was rolled back. Otherwise returns the outcome with which the user's work
    /// failed.
    ///
    /// # Errors
    /// An error means that it is unknown whether the commit took place. The caller may settle the
    /// claim as if it had not: if it had, the lease is gone.
    async fn commit(self: Box<Self>, claim: &TransactionClaim) -> Result<Outcome, Error>;
}

/// The claim that is settled in the transaction.
#[derive(Debug, Clone)]
pub struct TransactionClaim {
    /// The lease of the claim.
    pub lease: Lease,
    /// The envelope of the job.
    pub envelope: Envelope,
    /// The largest payload that a chain may continue with, in bytes.
    pub payload_limit: usize,
}

impl TransactionClaim {
    /// The settlement for a job that completed this way.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the chain cannot continue with the given job.
    pub fn settlement(&self, completion: Completion, now: Timestamp) -> Result<Settlement, Error> {
        let outcome = match completion {
            Completion::Output(output) => Outcome::Done(output),
            Completion::Continue(next) => {
                next.check(self.payload_limit)?;
                Outcome::Continue(next)
            }
        };
        let context = DecideContext { now, backoff: Backoff::DEFAULT, random: 0.0 };
        Ok(Settlement { lease: self.lease.clone(), change: decide(&self.envelope, outcome, context) })
    }
}

/// The end of a job together with a transaction. A handler returns it instead of the output `O`.
#[must_use = "nothing is committed before the handler returns this"]
pub struct Done<O: IntoCompletion> {
    work: Box<dyn Uncommitted>,
    output: PhantomData<fn() -> O>,
}

impl<O: IntoCompletion> Done<O> {
    /// Wraps work that produces the output itself.
    pub fn new(work: Box<dyn Uncommitted>) -> Self {
        Self { work, output: PhantomData }
    }

    /// The uncommitted work.
    pub fn into_work(self) -> Box<dyn Uncommitted> {
        self.work
    }
}

impl<O: IntoCompletion> fmt::Debug for Done<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}
