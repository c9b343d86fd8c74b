//! The envelope: the JSON object around a job's payload, the same on the wire of every store.
//!
//! The bytes are the truth. Reading takes out the few fields Tidemill needs and leaves the rest where it is;
//! changing a field rewrites that field only. So whatever another program put into an envelope, in whatever
//! spelling and precision, survives every retry and the dead letters.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::backoff::Backoff;
use crate::chain::{Blocker, Continuation};
use crate::clock::{Timestamp, millis};
use crate::name::{JobId, Kind};
use crate::workflow::{Asker, RunId, WorkflowName};

/// How often a job is tried when nobody says otherwise.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 5;

/// How long the result of a chain is kept when nobody says otherwise.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(600);

/// Bytes that are not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an envelope: {0}")]
pub struct Malformed(String);

impl Malformed {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

/// A job's envelope, read.
#[derive(Debug, Clone)]
pub struct Envelope {
    id: JobId,
    kind: Kind,
    attempts: u32,
    postponed: u32,
    max_attempts: u32,
    crashes: u32,
    timeout: Option<Duration>,
    keep_result: Option<Duration>,
    tracked: bool,
    asker: Option<Asker>,
    backoff: Option<Backoff>,
    heartbeat: Option<Duration>,
    payload: Range<usize>,
    bytes: Bytes,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    job_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    task_type: Option<Cow<'a, str>>,
    /// What the id is called in a message that starts a run. A job may have a field of that name for something else,
    /// so it is looked into only if there is no other.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// What such a message has in the place of a kind.
    #[serde(borrow, rename = "workflowName")]
    workflow: Option<&'a RawValue>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    postponed: u32,
    max_attempts: Option<u32>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    crashes: u32,
    timeout_ms: Option<u64>,
    keep_result_ms: Option<u64>,
    tracked: Option<bool>,
    run: Option<RunId>,
    seq: Option<u64>,
    backoff_ms: Option<[u64; 3]>,
    heartbeat_ms: Option<u64>,
}

/// What stands before a workflow's name in the kind of its tasks: an activity may have the same name.
const TASK: &str = "workflow:";

/// The kind of a workflow's tasks.
pub fn task_kind(workflow: &WorkflowName) -> Kind {
    Kind::of_workflow(&format!("{TASK}{workflow}"))
}

impl Wire<'_> {
    fn id(&self) -> Result<JobId, Malformed> {
        let id = match &self.job_id {
            Some(id) => JobId::new(id),
            None => JobId::new(&text(self.id, "job_id")?),
        };
        id.map_err(|error| Malformed(error.to_string()))
    }

    fn kind(&self) -> Result<Kind, Malformed> {
        let kind = match &self.task_type {
            Some(kind) => Kind::new(kind),
            None => Kind::new(&format!("{TASK}{}", text(self.workflow, "task_type")?)),
        };
        kind.map_err(|error| Malformed(error.to_string()))
    }
}

/// A text that has to be there.
fn text<'a>(raw: Option<&'a RawValue>, field: &str) -> Result<Cow<'a, str>, Malformed> {
    let raw = raw.ok_or_else(|| Malformed(format!("missing field `{field}`")))?;
    let Name(text) = serde_json::from_str(raw.get()).map_err(|error| Malformed(error.to_string()))?;
    Ok(text)
}

impl Envelope {
    /// Reads an envelope. The bytes are kept as they are.
    pub fn read(bytes: Bytes) -> Result<Self, Malformed> {
        let wire: Wire<'_> = serde_json::from_slice(&bytes).map_err(|error| Malformed(error.to_string()))?;
        let payload = wire.payload.map_or(0..0, |raw| position(&bytes, raw.get()));
        Ok(Self {
            id: wire.id()?,
            kind: wire.kind()?,
            attempts: wire.attempts,
            postponed: wire.postponed,
            max_attempts: wire.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS).max(1),
            crashes: wire.crashes,
            timeout: wire.timeout_ms.map(Duration::from_millis),
            keep_result: wire.keep_result_ms.map(Duration::from_millis),
            tracked: wire.tracked.unwrap_or(true),
            asker: wire.run.zip(wire.seq).map(|(run, seq)| Asker { run, seq }),
            backoff: wire.backoff_ms.map(|ms| {
                let [base, max, jitter] = ms.map(Duration::from_millis);
                Backoff { base, max, jitter }
            }),
            heartbeat: wire.heartbeat_ms.map(Duration::from_millis),
            payload,
            bytes,
        })
    }

    /// The job's identity.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// What the job does (`task_type`).
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How many attempts have been counted: failures and crashes.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// After this many counted attempts the job is dead.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How often in a row it was put back with a reason and without counting an attempt.
    pub fn postponed(&self) -> u32 {
        self.postponed
    }

    /// How many of the attempts ended with the death of the worker.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// How long one attempt may take, if the job itself says so.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// How long the result is kept for whoever waits for it; `None` if it is not.
    pub fn keep_result(&self) -> Option<Duration> {
        self.keep_result
    }

    /// Whether the job can be found by its id. Every job can, unless it was made in bulk and says otherwise.
    pub fn tracked(&self) -> bool {
        self.tracked
    }

    /// The run that waits for this job, if one does.
    pub fn asker(&self) -> Option<&Asker> {
        self.asker.as_ref()
    }

    /// How long to wait between attempts, if the job itself says so.
    pub fn backoff(&self) -> Option<Backoff> {
        self.backoff
    }

    /// How long an attempt may give no sign of life, if the job itself says so.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    /// The payload as JSON text.
    pub fn payload(&self) -> &[u8] {
        if self.payload.is_empty() { b"null" } else { &self.bytes[self.payload.clone()] }
    }

    /// How the chains ended that the job waited for, in the order in which it named them.
    pub fn blockers(&self) -> Result<Vec<Blocker>, Malformed> {
        #[derive(Deserialize)]
        struct Told {
            #[serde(default)]
            blockers: Vec<Blocker>,
        }
        let told = serde_json::from_slice::<Told>(&self.bytes);
        told.map(|told| told.blockers).map_err(|error| Malformed(error.to_string()))
    }

    /// The envelope of the job this one continues with: what belongs to the whole chain goes on, what belongs
    /// to the attempt does not.
    pub(crate) fn successor(&self, id: &JobId, next: &Continuation, now: Timestamp) -> Bytes {
        #[derive(Default, Deserialize)]
        struct Origin<'a> {
            #[serde(borrow)]
            correlation_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            user_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            source: Option<Cow<'a, str>>,
        }
        #[derive(Default, Deserialize)]
        struct Whole<'a> {
            #[serde(borrow, default)]
            meta: Origin<'a>,
        }
        // A foreign envelope may have a `meta` of another shape; then nothing is known of its origin.
        let Whole { meta } = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let meta = Meta {
            correlation_id: meta.correlation_id.as_deref(),
            user_id: meta.user_id.as_deref(),
            enqueue_ts: now,
            source: meta.source.as_deref().unwrap_or("tidemill"),
        };
        let draft = Draft {
            kind: &next.kind,
            max_attempts: next.max_attempts,
            timeout: next.timeout,
            keep_result: Some(self.keep_result.unwrap_or(DEFAULT_KEEP)),
            tracked: true,
            terms: None,
            meta,
        };
        draft.frame().enclose(id, &next.payload)
    }

    /// The whole envelope as it is on the wire.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A copy with `edits` applied, in order; everything else stays to the letter.
    pub fn edit(&self, edits: &[Edit<'_>]) -> Bytes {
        edit(&self.bytes, edits)
    }
}

/// Where `part`, which lies within `whole`, begins and ends.
fn position(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// One change to a top-level field.
#[derive(Debug, Clone, Copy)]
pub enum Edit<'a> {
    /// Sets the field to a number.
    Number(&'a str, u64),
    /// Sets the field to a text.
    Text(&'a str, &'a str),
    /// Takes the field out.
    Remove(&'a str),
}

impl Edit<'_> {
    fn field(&self) -> &str {
        match self {
            Self::Number(field, _) | Self::Text(field, _) | Self::Remove(field) => field,
        }
    }
}

/// Applies `edits` to the JSON object in `object`. What is no object stays as it is: its caller has read it
/// before, or keeps the bytes for a human to look at.
pub(crate) fn edit(object: &Bytes, edits: &[Edit<'_>]) -> Bytes {
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(object) else { return object.clone() };
    let mut out = Vec::with_capacity(object.len() + 64);
    let written = write_fields(&mut serde_json::Serializer::new(&mut out), &fields, edits);
    if written.is_ok() { out.into() } else { object.clone() }
}

fn write_fields<S: Serializer>(to: S, fields: &Fields<'_>, edits: &[Edit<'_>]) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for (name, value) in &fields.0 {
        match edits.iter().find(|edit| edit.field() == name) {
            None => map.serialize_entry(name, value)?,
            Some(edit) => write_edit(&mut map, edit)?,
        }
    }
    for edit in edits.iter().filter(|edit| !fields.0.iter().any(|(name, _)| edit.field() == name)) {
        write_edit(&mut map, edit)?;
    }
    map.end()
}

fn write_edit<M: SerializeMap>(map: &mut M, edit: &Edit<'_>) -> Result<(), M::Error> {
    match edit {
        Edit::Number(field, value) => map.serialize_entry(field, value),
        Edit::Text(field, value) => map.serialize_entry(field, value),
        Edit::Remove(_) => Ok(()),
    }
}

/// The fields of an object, in their order, values untouched.
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Walk)
    }
}

/// A field's name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// What new envelopes have in common: everything but their id and payload. Made once for a bulk, because most
/// of an envelope is the same for all of them.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Between the id and the payload.
    middle: Vec<u8>,
    /// After the payload.
    end: Vec<u8>,
}

/// How a new job is to be treated.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// What it does.
    pub kind: &'a Kind,
    /// How often it is tried.
    pub max_attempts: u32,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long the result is kept.
    pub keep_result: Option<Duration>,
    /// Whether it can be found by its id while it waits.
    pub tracked: bool,
    /// If a run asked for it, on which terms.
    pub terms: Option<Terms<'a>>,
    /// Free facts about its origin.
    pub meta: Meta<'a>,
}

/// On which terms a run asks for a job.
#[derive(Debug, Clone)]
pub struct Terms<'a> {
    /// The run that is told how it ends.
    pub asker: &'a Asker,
    /// How long to wait between attempts, if not as the worker says.
    pub backoff: Option<Backoff>,
    /// How long an attempt may give no sign of life.
    pub heartbeat: Option<Duration>,
}

/// The envelope's `meta`: where a job comes from. Nothing here changes how it runs.
#[derive(Debug, Clone, Serialize)]
pub struct Meta<'a> {
    /// Ties together what belongs to one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<&'a str>,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<&'a str>,
    /// When it was made.
    pub enqueue_ts: Timestamp,
    /// By what program.
    pub source: &'a str,
}

impl Draft<'_> {
    /// Writes down what is the same for every job like this.
    pub fn frame(&self) -> Frame {
        #[derive(Serialize)]
        struct End<'a> {
            meta: &'a Meta<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            timeout_ms: Option<i64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            keep_result_ms: Option<i64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tracked: Option<bool>,
            #[serde(skip_serializing_if = "Option::is_none")]
            run: Option<&'a RunId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            seq: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            backoff_ms: Option<[i64; 3]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            heartbeat_ms: Option<i64>,
        }
        let terms = self.terms.as_ref();
        let end = End {
            meta: &self.meta,
            timeout_ms: self.timeout.map(millis),
            keep_result_ms: self.keep_result.map(millis),
            tracked: (!self.tracked).then_some(false),
            run: terms.map(|terms| &terms.asker.run),
            seq: terms.map(|terms| terms.asker.seq),
            backoff_ms: terms.and_then(|terms| terms.backoff).map(|b| [b.base, b.max, b.jitter].map(millis)),
            heartbeat_ms: terms.and_then(|terms| terms.heartbeat).map(millis),
        };
        let middle = format!(
            r#","task_type":"{}","attempts":0,"max_attempts":{},"payload":"#,
            self.kind, self.max_attempts
        );
        // Text and numbers always serialise; the object's own brace becomes the comma behind the payload.
        let mut end = serde_json::to_vec(&end).unwrap_or_else(|_| b"{}".to_vec());
        end[0] = b',';
        Frame { middle: middle.into_bytes(), end }
    }
}

impl Frame {
    /// An envelope around a payload that is JSON already.
    fn enclose(&self, id: &JobId, payload: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(self.middle.len() + self.end.len() + payload.len() + 160);
        out.extend_from_slice(br#"{"job_id":"#);
        // An id is printable text, which always serialises.
        let _ = serde_json::to_writer(&mut out, id.as_str());
        out.extend_from_slice(&self.middle);
        out.extend_from_slice(payload);
        out.extend_from_slice(&self.end);
        out.into()
    }

    /// An envelope around `payload`, and the payload's size in bytes. `job_id` comes first, so that a script can
    /// find it without parsing the rest.
    pub fn fill(
        &self,
        id: &JobId,
        payload: &(impl Serialize + ?Sized),
    ) -> serde_json::Result<(Bytes, usize)> {
        let mut out = Vec::with_capacity(self.middle.len() + self.end.len() + 256);
        out.extend_from_slice(br#"{"job_id":"#);
        serde_json::to_writer(&mut out, id.as_str())?;
        out.extend_from_slice(&self.middle);
        let begun = out.len();
        serde_json::to_writer(&mut out, payload)?;
        let size = out.len() - begun;
        out.extend_from_slice(&self.end);
        Ok((out.into(), size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Envelope, Malformed> {
        Envelope::read(Bytes::copy_from_slice(json.as_bytes()))
    }

    const SEED: &str = r#"{"job_id":"5f0f","task_type":"navigate_extract","attempts":0,"max_attempts":5,
        "payload":{"url":"https://example.com","n":12345678901234567890.10},
        "meta":{"correlation_id":"c","enqueue_ts":"2025-01-01T00:00:00Z"},"x-trace":[1e400,{}]}"#;

    #[test]
    fn reads_the_seed_envelope() {
        let envelope = read(SEED).unwrap();
        assert_eq!(envelope.id().as_str(), "5f0f");
        assert_eq!(envelope.kind().as_str(), "navigate_extract");
        assert_eq!((envelope.attempts(), envelope.max_attempts()), (0, 5));
        assert_eq!(envelope.payload(), br#"{"url":"https://example.com","n":12345678901234567890.10}"#);
    }

    #[test]
    fn reads_a_message_that_starts_a_run_and_one_that_says_everything_twice() {
        let start =
            r#"{"id":"run-1","workflowName":"order","version":"1.0.0","payload":{"a":1},"createdAt":5}"#;
        let both = format!(r#"{{"job_id":"run-1","task_type":"workflow:order",{}"#, &start[1..]);
        for json in [start, &both] {
            let envelope = read(json).unwrap();
            assert_eq!((envelope.id().as_str(), envelope.kind().as_str()), ("run-1", "workflow:order"));
            assert_eq!(envelope.kind(), &task_kind(&WorkflowName::new("order").unwrap()));
        }
        assert!(read(r#"{"job_id":"a","task_type":"t","id":7,"workflowName":[]}"#).is_ok());
        assert!(read(r#"{"id":7,"workflowName":"order"}"#).is_err());
    }

    #[test]
    fn an_edit_leaves_foreign_fields_to_the_letter() {
        let envelope = read(SEED).unwrap();
        let edited = envelope.edit(&[Edit::Number("attempts", 1), Edit::Text("last_error", "a \"b\"\n")]);
        let text = std::str::from_utf8(&edited).unwrap();
        assert!(text.contains(r#""x-trace":[1e400,{}]"#), "{text}");
        assert!(text.contains(r#""n":12345678901234567890.10"#), "{text}");
        assert!(
            text.contains(r#""attempts":1,"#) && text.ends_with(r#""last_error":"a \"b\"\n"}"#),
            "{text}"
        );
        let again = Envelope::read(edited).unwrap();
        assert_eq!(again.attempts(), 1);
        assert!(!again.edit(&[Edit::Remove("last_error")]).ends_with(b"last_error"));
    }

    #[test]
    fn refuses_what_is_no_envelope() {
        let bad = [
            "",
            "null",
            "[]",
            "{}",
            "{\"job_id\":1}",
            "\u{0}",
            "{\"job_id\":\"a\"}",
            r#"{"job_id":"a b","task_type":"t"}"#,
            r#"{"job_id":"a","task_type":"t","attempts":-1}"#,
        ];
        for json in bad {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(Envelope::read(Bytes::from_static(&[0xff, 0xfe])).is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_draft_reads_back() {
        let (id, kind) = (JobId::new("a\"b\\").unwrap(), Kind::new("mail").unwrap());
        let meta =
            Meta { correlation_id: Some("c"), user_id: None, enqueue_ts: Timestamp(0), source: "te\"st" };
        let draft = Draft {
            kind: &kind,
            max_attempts: 3,
            timeout: Some(Duration::from_secs(2)),
            keep_result: None,
            terms: None,
            tracked: false,
            meta,
        };
        let (bytes, size) = draft.frame().fill(&id, &["a"]).unwrap();
        assert_eq!(size, 5);
        let whole: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(whole["meta"]["source"], "te\"st");
        let envelope = Envelope::read(bytes).unwrap();
        assert_eq!((envelope.id(), envelope.payload()), (&id, &br#"["a"]"#[..]));
        assert_eq!((envelope.timeout(), envelope.keep_result()), (Some(Duration::from_secs(2)), None));
        assert!(!envelope.tracked());
    }
}
