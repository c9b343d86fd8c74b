//! The thread that reads, on a connection of its own: a long page or a slow count keeps no writer waiting.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use rusqlite::Connection;
use tidemill_core::{Clock, Error};
use tokio::sync::oneshot;

use crate::call::{Call, Line, Message, Tx};
use crate::connection::{open_reader, patiently};
use crate::error::Failure;
use crate::wake::Announcements;

/// Opens the file once more, for reading, on a thread of its own.
pub(crate) async fn start(path: PathBuf, clock: Arc<dyn Clock>) -> Result<Line, Error> {
    let (sender, calls) = mpsc::channel();
    let (opened, is_open) = oneshot::channel();
    let work = move || match open_reader(&path) {
        Ok(connection) => {
            let _ = opened.send(Ok(()));
            for message in calls {
                if let Message::Call(call) = message {
                    read(&connection, &*clock, call);
                }
            }
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name("tidemill-reader".into()).spawn(work);
    let thread = thread.map_err(|error| Error::unavailable("no thread for the reader", error))?;
    let line = Line::new(sender, thread);
    is_open.await.map_err(|error| Error::unavailable("the reader did not start", error))??;
    Ok(line)
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
