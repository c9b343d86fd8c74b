//! The view of a job: the store's data and the fields of its envelope.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidemill::job::JobState;
use tidemill::store::JobInfo;
use tidemill::workflow::RunId;
use tidemill::{DeadLetter, DeathReason, Envelope, Guarantee, JobId, QueueName, Timestamp};

use super::{Cell, Colour, TextTable, printable, time::relative};

/// A job, for tables and JSON.
#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    pub(crate) job: JobId,
    pub(crate) state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<Guarantee>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enqueued_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits_for: Vec<JobId>,
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
    /// The envelope or dead letter as stored, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) envelope: Option<Box<RawValue>>,
}

/// Fields of an envelope that do not affect how the job runs.
#[derive(Debug, Default, Deserialize)]
struct EnvelopeExtras {
    #[serde(default)]
    meta: EnvelopeMeta,
    last_error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct EnvelopeMeta {
    enqueue_ts: Option<String>,
}

impl JobView {
    pub(crate) fn new(info: &JobInfo) -> Self {
        let envelope = Envelope::read(info.data.clone()).ok();
        let letter = (info.state == JobState::Dead).then(|| DeadLetter::from_stored(info));
        let unreadable = letter.as_ref().filter(|letter| letter.reason == DeathReason::Unreadable);
        let extras: EnvelopeExtras = serde_json::from_slice(&info.data).unwrap_or_default();
        let record = info.record.as_ref();
        let discarded = record.and_then(|record| record.error.clone());
        Self {
            job: info.job.clone(),
            state: info.state,
            queue: info.queue.as_ref().map(|queue| queue.name.clone()),
            delivery: info.queue.as_ref().map(|queue| queue.guarantee),
            kind: envelope.as_ref().map(|envelope| envelope.kind().to_string()),
            run: info.job.run(),
            attempts: envelope.as_ref().map(Envelope::attempts),
            max_attempts: envelope.as_ref().map(Envelope::max_attempts),
            enqueued_at: extras.meta.enqueue_ts,
            due: info.due,
            waits_for: info.waits_for.clone(),
            held_by: info.held_by.clone(),
            cancelling: info.cancelling,
            last_error: discarded
                .or(extras.last_error)
                .or_else(|| unreadable.and_then(|letter| letter.last_error.clone())),
            died_at: letter.as_ref().filter(|_| unreadable.is_none()).map(|letter| letter.at),
            reason: letter.as_ref().map(|letter| letter.reason.to_string()),
            finished_at: record.map(|record| record.finished_at),
            output: record.and_then(|record| one_line_json(&record.output)),
            envelope: one_line_json(&info.data)
                .or_else(|| unreadable.and_then(|letter| quoted_json(&letter.bytes))),
        }
    }

    /// The current attempt and the maximum.
    pub(crate) fn attempts_of_max(&self) -> String {
        match (self.attempts, self.max_attempts) {
            (Some(attempts), Some(max)) => format!("{attempts}/{max}"),
            _ => String::new(),
        }
    }

    /// The payload, as JSON text.
    pub(crate) fn payload(&self) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct EnvelopePayload {
            payload: Option<Box<RawValue>>,
        }
        serde_json::from_str::<EnvelopePayload>(self.envelope.as_ref()?.get()).ok()?.payload
    }
}

/// JSON in one line. A line break in valid JSON is never inside a string, so a space can replace
/// it.
fn one_line_json(bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    RawValue::from_string(text.replace(['\n', '\r'], " ")).ok()
}

/// Bytes that are not JSON, as a JSON string.
fn quoted_json(bytes: &[u8]) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&String::from_utf8_lossy(bytes)).ok()
}

/// All facts about one job.
pub(crate) fn facts(view: &JobView, now: Timestamp) -> TextTable {
    let mut facts = TextTable::facts();
    facts.fact("job", view.job.as_str());
    facts.fact("state", Cell::text(view.state.to_string()).colour(Colour::for_state(view.state)));
    let when = |time: Timestamp| format!("{time} ({})", relative(now, time));
    let text = |text: &String| printable(text);
    let json = |json: &RawValue| printable(json.get());
    let lines = [
        ("kind", view.kind.clone()),
        ("run", view.run.as_ref().map(ToString::to_string)),
        ("queue", view.queue.as_ref().map(ToString::to_string)),
        ("delivery", view.delivery.map(|delivery| delivery.to_string())),
        ("attempts", Some(view.attempts_of_max()).filter(|attempts_of_max| !attempts_of_max.is_empty())),
        ("enqueued", view.enqueued_at.as_ref().map(text)),
        ("due", view.due.map(when)),
        ("waits for", Some(names(&view.waits_for)).filter(|names| !names.is_empty())),
        ("held by", view.held_by.as_ref().map(text)),
        ("asked to stop", view.cancelling.then(|| "yes".to_owned())),
        ("died", view.died_at.map(when)),
        ("reason", view.reason.as_ref().map(text)),
        ("last error", view.last_error.as_ref().map(text)),
        ("ended", view.finished_at.map(when)),
        ("output", view.output.as_deref().map(json)),
        ("payload", view.payload().as_deref().map(json)),
        ("bytes", view.kind.is_none().then(|| view.envelope.as_deref().map(json)).flatten()),
    ];
    for (name, fact) in lines {
        if let Some(fact) = fact {
            facts.fact(name, fact);
        }
    }
    facts
}

fn names(ids: &[JobId]) -> String {
    ids.iter().map(JobId::as_str).collect::<Vec<_>>().join(", ")
}

/// A table with one job per row.
pub(crate) fn table(views: &[JobView], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["JOB", "STATE", "QUEUE", "KIND", "TRIES", "NOTE"]);
    for view in views {
        table.row(vec![
            Cell::text(view.job.as_str()),
            Cell::text(view.state.to_string()).colour(Colour::for_state(view.state)),
            Cell::text(view.queue.as_ref().map_or("", |queue| queue.as_str())),
            Cell::text(view.kind.clone().unwrap_or_default()),
            Cell::text(view.attempts_of_max()),
            Cell::text(note(view, now)),
        ]);
    }
    table
}

/// The most useful note for the state of the job.
fn note(view: &JobView, now: Timestamp) -> String {
    let error = view.last_error.as_deref().map(printable);
    match view.state {
        JobState::Scheduled => [view.due.map(|due| relative(now, due)), error]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": "),
        JobState::Blocked => match &view.waits_for[..] {
            [] => String::new(),
            [one] => format!("waits for {one}"),
            [first, rest @ ..] => format!("waits for {first} and {} more", rest.len()),
        },
        JobState::Running if view.cancelling => "told to stop".to_owned(),
        JobState::Running => {
            view.held_by.as_deref().map(|by| format!("held by {}", printable(by))).unwrap_or_default()
        }
        JobState::Dead => view.reason.as_deref().map(printable).unwrap_or_default(),
        _ => error.unwrap_or_default(),
    }
}
