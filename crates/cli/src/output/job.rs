//! A job as it is shown: the store's view of it and what its envelope says, put together.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidemill::job::State;
use tidemill::store::JobInfo;
use tidemill::{DeadLetter, Delivery, Envelope, JobId, QueueName, Timestamp};

/// A job, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    pub(crate) job: JobId,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enqueued_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_by: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelling: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) died_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Box<RawValue>>,
    /// The envelope or letter as it is on the wire, if it is JSON at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) envelope: Option<Box<RawValue>>,
}

/// What an envelope says that has no part in how the job runs.
#[derive(Debug, Default, Deserialize)]
struct Remarks {
    #[serde(default)]
    meta: Meta,
    last_error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    enqueue_ts: Option<String>,
}

impl JobView {
    pub(crate) fn of(info: &JobInfo) -> Self {
        let envelope = Envelope::read(info.data.clone()).ok();
        let letter = (info.state == State::Dead).then(|| DeadLetter::read(info.data.clone()).ok()).flatten();
        let remarks: Remarks = serde_json::from_slice(&info.data).unwrap_or_default();
        let record = info.record.as_ref();
        let discarded = record.and_then(|record| record.error.clone());
        Self {
            job: info.job.clone(),
            state: info.state,
            queue: info.queue.as_ref().map(|queue| queue.name.clone()),
            delivery: info.queue.as_ref().map(|queue| queue.delivery),
            kind: envelope.as_ref().map(|envelope| envelope.kind().to_string()),
            attempts: envelope.as_ref().map(Envelope::attempts),
            max_attempts: envelope.as_ref().map(Envelope::max_attempts),
            enqueued_at: remarks.meta.enqueue_ts,
            due: info.due,
            held_by: info.held_by.clone(),
            cancelling: info.cancelling,
            last_error: discarded.or(remarks.last_error),
            died_at: letter.as_ref().map(|letter| letter.at),
            reason: letter.as_ref().map(|letter| letter.reason.to_string()),
            finished_at: record.map(|record| record.finished_at),
            output: record.and_then(|record| raw(&record.output)),
            envelope: raw(&info.data),
        }
    }

    /// Which attempt it is in, of how many.
    pub(crate) fn tries(&self) -> String {
        match (self.attempts, self.max_attempts) {
            (Some(attempts), Some(max)) => format!("{attempts}/{max}"),
            _ => String::new(),
        }
    }

    /// The payload, as JSON text.
    pub(crate) fn payload(&self) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Wire {
            payload: Option<Box<RawValue>>,
        }
        serde_json::from_str::<Wire>(self.envelope.as_ref()?.get()).ok()?.payload
    }
}

/// JSON in one line. A line break in sound JSON is never inside a text, so it may as well be a space.
fn raw(bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    RawValue::from_string(text.replace(['\n', '\r'], " ")).ok()
}
