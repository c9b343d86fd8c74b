//! Running a batch of requests in one transaction.

use rusqlite::Connection;
use tidemill_core::Timestamp;

use super::request::{DatabaseRequest, RunsLeft, Tx};
use super::savepoint::{in_savepoint, transaction_ended};
use crate::error::RequestError;
use crate::wake::TransactionWakes;

/// A request that failed without harm to the others: its index in the batch, and the failure.
pub(crate) type FailedRequest = (usize, RequestError);

/// An open transaction for a batch of requests.
pub(crate) struct BatchTransaction<'s> {
    pub(crate) connection: &'s Connection,
    pub(crate) now: Timestamp,
    pub(crate) wakes: &'s mut TransactionWakes,
}

impl BatchTransaction<'_> {
    /// Runs the batch and commits. On an error the whole batch has to be rolled back.
    pub(crate) fn commit(
        &mut self,
        batch: &mut [Box<dyn DatabaseRequest>],
    ) -> Result<Vec<FailedRequest>, RequestError> {
        // Repeatable requests are cheaper without savepoints, and seldom fail.
        let failed = match batch.iter().all(|request| request.runs_left() == RunsLeft::Any) {
            true => self.run_without_savepoints(batch)?,
            false => self.run_in_savepoints(batch)?,
        };
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(failed)
    }

    /// Runs all requests until one fails.
    fn run_without_savepoints(
        &mut self,
        batch: &mut [Box<dyn DatabaseRequest>],
    ) -> Result<Vec<FailedRequest>, RequestError> {
        for request in batch {
            request.run(&mut self.tx())?;
        }
        Ok(Vec::new())
    }

    /// Runs each repeatable request in a savepoint, so that its failure undoes that request only.
    /// Requests that run once undo themselves.
    fn run_in_savepoints(
        &mut self,
        batch: &mut [Box<dyn DatabaseRequest>],
    ) -> Result<Vec<FailedRequest>, RequestError> {
        let (connection, mut failed) = (self.connection, Vec::new());
        for (index, request) in batch.iter_mut().enumerate() {
            let result = match request.runs_left() {
                RunsLeft::Any => in_savepoint(connection, || request.run(&mut self.tx()))?,
                RunsLeft::One | RunsLeft::Zero => request.run(&mut self.tx()),
            };
            if connection.is_autocommit() {
                return Err(result.err().unwrap_or_else(transaction_ended));
            }
            failed.extend(result.err().map(|failure| (index, failure)));
        }
        Ok(failed)
    }

    fn tx(&mut self) -> Tx<'_> {
        Tx { connection: self.connection, now: self.now, wakes: self.wakes }
    }
}
