//! The end of a job together with work of the user's, in one transaction on the writer.

use std::marker::PhantomData;

use async_trait::async_trait;
use rusqlite::Connection;
use tidemill_core::chain::IntoCompletion;
use tidemill_core::store::Verdict;
use tidemill_core::transaction::{Committed, TransactionClaim, Uncommitted};
use tidemill_core::{Error, Outcome};

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::jobs::{is_current, settle_one};
use crate::promises::Promises;
use crate::savepoint::apart;
use crate::store::SqliteStore;
use crate::transaction::{ROWS, TransactError, run};

/// Work that has not run yet.
pub(crate) struct Atomic<O, F> {
    store: SqliteStore,
    work: F,
    output: PhantomData<fn() -> O>,
}

impl<O, F> Atomic<O, F> {
    pub(crate) fn new(store: SqliteStore, work: F) -> Self {
        Self { store, work, output: PhantomData }
    }
}

#[async_trait]
impl<O, F> Uncommitted for Atomic<O, F>
where
    O: IntoCompletion,
    F: FnOnce(&Connection) -> Result<O, Outcome> + Send + 'static,
{
    async fn commit(self: Box<Self>, claim: &TransactionClaim) -> Result<Committed, Error> {
        let Self { store, work, .. } = *self;
        let (promises, claim) = (store.promises().clone(), claim.clone());
        let end = move |tx: &mut Tx<'_>| end(tx, &promises, &claim, work);
        // Whatever the work adds, the job goes: ending jobs is not refused when the disk is full.
        store.write_once(Cost::change(ROWS), end).await
    }
}

fn end<O: IntoCompletion>(
    tx: &mut Tx<'_>,
    promises: &Promises,
    claim: &TransactionClaim,
    work: impl FnOnce(&Connection) -> Result<O, Outcome>,
) -> Result<Committed, Failure> {
    if !is_current(tx, &claim.lease)? {
        return Ok(Committed::LeaseLost);
    }
    let connection = tx.connection;
    let done = apart(connection, || {
        let output = run(tx, promises, work)?;
        let end = output.into_completion(claim.envelope.keep_result().is_some())?;
        match settle_one(tx, &claim.settlement(end, tx.now)?)? {
            Verdict::Accepted => Ok(()),
            Verdict::LeaseLost | Verdict::Unknown => Err(Undone::LeaseLost),
        }
    })?;
    match done {
        Ok(()) => Ok(Committed::Yes),
        Err(Undone::LeaseLost) => Ok(Committed::LeaseLost),
        Err(Undone::Work(outcome)) => Ok(Committed::Failed(outcome)),
        Err(Undone::Failure(failure)) => Err(failure),
    }
}

/// Why nothing has happened.
enum Undone {
    /// The work itself has ended its job.
    LeaseLost,
    Work(Outcome),
    Failure(Failure),
}

impl From<TransactError<Outcome>> for Undone {
    fn from(error: TransactError<Outcome>) -> Self {
        match error {
            TransactError::Work(outcome) => Self::Work(outcome),
            TransactError::Store(error) => Self::Failure(error.into()),
            TransactError::Panicked(text) => {
                let error = format!("the work in the transaction panicked: {text}");
                Self::Work(Outcome::Retry { error, after: None })
            }
        }
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failure(error.into())
    }
}

impl From<Failure> for Undone {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
