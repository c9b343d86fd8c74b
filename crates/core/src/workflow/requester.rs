//! Delivery of an activity's end to its run.

use bytes::Bytes;

use super::event::{ActivityFailure, ActivityResult, FailureKind, RunEvent};
use super::journal::Entry;
use super::json::Json;
use super::name::RunId;
use crate::clock::Timestamp;
use crate::settle::Change;
use crate::store::runs::{Delivery, EntryKind, StoredEntry};

/// The run, and the number of its command, that wait for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// The run.
    pub run: RunId,
    /// The number of the command.
    pub seq: u64,
}

impl Requester {
    /// The change that ends the job and delivers `event`.
    pub(crate) fn notify(&self, now: Timestamp, event: RunEvent) -> Change {
        let entry = StoredEntry { kind: EntryKind::CommandResult, bytes: Entry::event(now, event).write() };
        Change::Deliver(Box::new(Delivery { run: self.run.clone(), entry, id: None, seq: Some(self.seq) }))
    }

    fn deliver_result(&self, now: Timestamp, result: ActivityResult) -> Change {
        self.notify(now, RunEvent::ActivityDone { seq: self.seq, result })
    }
}

/// The change for an activity with this output.
pub(crate) fn done(requester: &Requester, now: Timestamp, output: &Bytes) -> Change {
    let text =
        if output.is_empty() { "null".to_owned() } else { String::from_utf8_lossy(output).into_owned() };
    match Json::from_text(text) {
        Ok(json) => requester.deliver_result(now, ActivityResult::Ok(json)),
        Err(error) => {
            let message = format!("the output is no JSON: {error}");
            failed(requester, now, ActivityFailure { message, kind: FailureKind::Failed, attempts: 1 })
        }
    }
}

/// The change for an activity without an output.
pub(crate) fn failed(requester: &Requester, now: Timestamp, failure: ActivityFailure) -> Change {
    requester.deliver_result(now, ActivityResult::Failed(failure))
}

/// The change for a cancelled activity.
pub(crate) fn cancelled(requester: &Requester, now: Timestamp, reason: Option<String>) -> Change {
    let message = reason.unwrap_or_else(|| "cancelled".to_owned());
    failed(requester, now, ActivityFailure { message, kind: FailureKind::Cancelled, attempts: 0 })
}
