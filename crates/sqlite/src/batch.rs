//! Running a batch of calls in one transaction.

use rusqlite::Connection;
use tidemill_core::Timestamp;

use crate::call::{Call, Runs, Tx};
use crate::error::Failure;
use crate::savepoint::{apart, ended};
use crate::wake::Announcements;

/// A call that failed without harming the others: where it is in its batch, and why it failed.
pub(crate) type Failed = (usize, Failure);

/// What a batch runs in: a transaction that has begun.
pub(crate) struct Setting<'s> {
    pub(crate) connection: &'s Connection,
    pub(crate) now: Timestamp,
    pub(crate) announcements: &'s mut Announcements,
}

impl Setting<'_> {
    /// Runs the batch and commits. On an error nothing of it has happened.
    pub(crate) fn commit(&mut self, batch: &mut [Box<dyn Call>]) -> Result<Vec<Failed>, Failure> {
        // Calls that can be repeated are cheaper without savepoints, and seldom fail.
        let failed = match batch.iter().all(|call| call.runs() == Runs::Any) {
            true => self.run_together(batch)?,
            false => self.run_apart(batch)?,
        };
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(failed)
    }

    /// Runs all calls until one fails.
    fn run_together(&mut self, batch: &mut [Box<dyn Call>]) -> Result<Vec<Failed>, Failure> {
        for call in batch {
            call.run(&mut self.tx())?;
        }
        Ok(Vec::new())
    }

    /// Runs every call so that the failure of one undoes that one only: some cannot be run again.
    fn run_apart(&mut self, batch: &mut [Box<dyn Call>]) -> Result<Vec<Failed>, Failure> {
        let (connection, mut failed) = (self.connection, Vec::new());
        for (index, call) in batch.iter_mut().enumerate() {
            let result = match call.runs() {
                Runs::Any => apart(connection, || call.run(&mut self.tx()))?,
                Runs::Once | Runs::Spent => call.run(&mut self.tx()),
            };
            if connection.is_autocommit() {
                return Err(result.err().unwrap_or_else(ended));
            }
            failed.extend(result.err().map(|failure| (index, failure)));
        }
        Ok(failed)
    }

    fn tx(&mut self) -> Tx<'_> {
        Tx { connection: self.connection, now: self.now, announcements: self.announcements }
    }
}
