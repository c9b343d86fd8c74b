//! A job's end together with the user's work, in one transaction on the writer.

use std::marker::PhantomData;

use async_trait::async_trait;
use rusqlite::Connection;
use tidemill_core::chain::IntoCompletion;
use tidemill_core::store::Verdict;
use tidemill_core::transaction::{TransactionClaim, Uncommitted};
use tidemill_core::{Error, Outcome};

use crate::connection::{Cost, Tx, in_savepoint};
use crate::error::RequestError;
use crate::jobs::{is_current, settle_one};
use crate::store::SqliteStore;
use crate::transaction::{ESTIMATED_ROWS, TransactError, run};
use crate::wake::PostCommitWakes;

/// Work that has not run yet.
pub(crate) struct UncommittedWork<O, F> {
    store: SqliteStore,
    work: F,
    output: PhantomData<fn() -> O>,
}

impl<O, F> UncommittedWork<O, F> {
    pub(crate) fn new(store: SqliteStore, work: F) -> Self {
        Self { store, work, output: PhantomData }
    }
}

#[async_trait]
impl<O, F> Uncommitted for UncommittedWork<O, F>
where
    O: IntoCompletion,
    F: FnOnce(&Connection) -> Result<O, Outcome> + Send + 'static,
{
    async fn commit(self: Box<Self>, claim: &TransactionClaim) -> Result<Outcome, Error> {
        let Self { store, work, .. } = *self;
        let (wakes, claim) = (store.post_commit_wakes().clone(), claim.clone());
        let commit = move |tx: &mut Tx<'_>| commit(tx, &wakes, &claim, work);
        // Whatever the work adds, the job ends: ending jobs is not rejected when the disk is full.
        store.write_once(Cost::change(ESTIMATED_ROWS), commit).await
    }
}

fn commit<O: IntoCompletion>(
    tx: &mut Tx<'_>,
    post_commit_wakes: &PostCommitWakes,
    claim: &TransactionClaim,
    work: impl FnOnce(&Connection) -> Result<O, Outcome>,
) -> Result<Outcome, RequestError> {
    if !is_current(tx, &claim.lease)? {
        return Ok(Outcome::Settled(Verdict::LeaseLost));
    }
    let connection = tx.connection;
    let done = in_savepoint(connection, || {
        let output = run(tx, post_commit_wakes, work)?;
        let end = output.into_completion(claim.envelope.keep_result().is_some())?;
        match settle_one(tx, &claim.settlement(end, tx.now)?)? {
            Verdict::Accepted => Ok(()),
            Verdict::LeaseLost | Verdict::Unknown => Err(AbortReason::LeaseLost),
        }
    })?;
    match done {
        Ok(()) => Ok(Outcome::Settled(Verdict::Accepted)),
        Err(AbortReason::LeaseLost) => Ok(Outcome::Settled(Verdict::LeaseLost)),
        Err(AbortReason::Work(outcome)) => Ok(outcome),
        Err(AbortReason::Request(failure)) => Err(failure),
    }
}

/// Why the transaction had no effect.
enum AbortReason {
    /// The work itself has ended its job.
    LeaseLost,
    Work(Outcome),
    Request(RequestError),
}

impl From<TransactError<Outcome>> for AbortReason {
    fn from(error: TransactError<Outcome>) -> Self {
        match error {
            TransactError::Work(outcome) => Self::Work(outcome),
            TransactError::Store(error) => Self::Request(error.into()),
            TransactError::Panicked(text) => {
                let error = format!("the work in the transaction panicked: {text}");
                Self::Work(Outcome::Retry { error, after: None })
            }
        }
    }
}

impl From<Error> for AbortReason {
    fn from(error: Error) -> Self {
        Self::Request(error.into())
    }
}

impl From<RequestError> for AbortReason {
    fn from(failure: RequestError) -> Self {
        Self::Request(failure)
    }
}
