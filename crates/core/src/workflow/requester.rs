//! What a run is told of the end of an activity.

use bytes::Bytes;

use super::event::{ActivityFailure, ActivityResult, FailureKind, RunEvent};
use super::journal::Entry;
use super::json::Json;
use super::name::RunId;
use crate::clock::Timestamp;
use crate::settle::Change;
use crate::store::runs::{Delivery, EntryKind, StoredEntry};

/// The run that waits for a job, and its number for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// The run.
    pub run: RunId,
    /// Its number.
    pub seq: u64,
}

impl Requester {
    /// Ends the job and says so.
    pub(crate) fn notify(&self, now: Timestamp, event: RunEvent) -> Change {
        let written = StoredEntry { kind: EntryKind::CommandResult, bytes: Entry::event(now, event).write() };
        Change::Deliver(Box::new(Delivery {
            run: self.run.clone(),
            entry: written,
            id: None,
            seq: Some(self.seq),
        }))
    }

    fn ended(&self, now: Timestamp, result: ActivityResult) -> Change {
        self.notify(now, RunEvent::ActivityDone { seq: self.seq, result })
    }
}

/// The activity has this output.
pub(crate) fn done(requester: &Requester, now: Timestamp, output: &Bytes) -> Change {
    let text =
        if output.is_empty() { "null".to_owned() } else { String::from_utf8_lossy(output).into_owned() };
    match Json::from_text(text) {
        Ok(json) => requester.ended(now, ActivityResult::Ok(json)),
        Err(error) => {
            let message = format!("the output is no JSON: {error}");
            failed(requester, now, ActivityFailure { message, kind: FailureKind::Failed, attempts: 1 })
        }
    }
}

/// The activity has ended without an output.
pub(crate) fn failed(requester: &Requester, now: Timestamp, failure: ActivityFailure) -> Change {
    requester.ended(now, ActivityResult::Failed(failure))
}

/// The activity was cancelled.
pub(crate) fn cancelled(requester: &Requester, now: Timestamp, why: Option<String>) -> Change {
    let message = why.unwrap_or_else(|| "cancelled".to_owned());
    failed(requester, now, ActivityFailure { message, kind: FailureKind::Cancelled, attempts: 0 })
}
