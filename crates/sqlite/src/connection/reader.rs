//! The reader thread. It has a connection of its own, so that a long page or a slow count does not
//! block the writer.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tidemill_core::{Clock, Error};

use super::open::{open_reader, retry_while_busy};
use super::request::{DatabaseRequest, Tx};
use super::thread::{DatabaseThread, ThreadMessage};
use crate::error::RequestError;
use crate::wake::TransactionWakes;

/// Opens a second, read-only connection to the file on a thread of its own.
pub(crate) async fn start(path: PathBuf, clock: Arc<dyn Clock>) -> Result<DatabaseThread, Error> {
    let open = move || open_reader(&path);
    DatabaseThread::start("tidemill-reader", open, move |connection, requests| {
        for message in requests {
            if let ThreadMessage::Request(request) = message {
                read(&connection, &*clock, request);
            }
        }
    })
    .await
}

/// Runs a request in a transaction, so that everything it reads is from one snapshot.
fn read(connection: &Connection, clock: &dyn Clock, mut request: Box<dyn DatabaseRequest>) {
    let outcome =
        retry_while_busy(|| connection.execute_batch("BEGIN")).map_err(RequestError::from).and_then(|()| {
            let mut discarded = TransactionWakes::default();
            request.run(&mut Tx { connection, now: clock.now(), wakes: &mut discarded })
        });
    if !connection.is_autocommit() {
        // Nothing was written, so there is nothing to commit.
        let _ = connection.execute_batch("ROLLBACK");
    }
    request.reply(outcome.map_err(Error::from));
}
