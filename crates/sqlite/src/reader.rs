//! The thread that reads, on a connection of its own: a long page or a slow count keeps no writer waiting.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tidemill_core::{Clock, Error};

use crate::call::{Call, Tx};
use crate::connection::{open_reader, patiently};
use crate::error::Failure;
use crate::line::{Line, Message};
use crate::wake::Announcements;

/// Opens the file once more, for reading, on a thread of its own.
pub(crate) async fn start(path: PathBuf, clock: Arc<dyn Clock>) -> Result<Line, Error> {
    let open = move || open_reader(&path);
    Line::start("tidemill-reader", open, move |connection, calls| {
        for message in calls {
            if let Message::Call(call) = message {
                read(&connection, &*clock, call);
            }
        }
    })
    .await
}

/// Runs a call in a transaction, so that everything it reads is of one moment.
fn read(connection: &Connection, clock: &dyn Clock, mut call: Box<dyn Call>) {
    let outcome = patiently(|| connection.execute_batch("BEGIN")).map_err(Failure::from).and_then(|()| {
        let mut unheard = Announcements::default();
        call.run(&mut Tx { connection, now: clock.now(), announcements: &mut unheard })
    });
    if !connection.is_autocommit() {
        // Nothing was written, so there is nothing to keep.
        let _ = connection.execute_batch("ROLLBACK");
    }
    call.answer(outcome.map_err(Error::from));
}
