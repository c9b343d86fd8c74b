//! The envelope: the JSON object around a job's payload, identical in all stores.
//!
//! The bytes are authoritative. Reading extracts the few fields that Tidemill needs, and an edit
//! rewrites only the edited field. So fields that other programs wrote keep their exact spelling
//! and number precision through every retry and in the dead letters.

mod edit;
mod template;

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use edit::Edit;
use edit::FieldName;
pub use template::{ActivityTerms, EnvelopeTemplate, JobOptions, Meta};

use crate::backoff::Backoff;
use crate::chain::{Blocker, Continuation};
use crate::clock::Timestamp;
use crate::limits::MAX_DURATION;
use crate::name::{JobId, Kind};
use crate::workflow::{Requester, RunId, WorkflowName};

/// The number of attempts, unless the job specifies it.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 5;

/// How long the result of a chain is kept, unless the job specifies it.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(600);

/// The error for bytes that are not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an envelope: {0}")]
pub struct MalformedEnvelope(String);

impl MalformedEnvelope {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
    fn json(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// A parsed envelope.
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
    requester: Option<Requester>,
    backoff: Option<Backoff>,
    heartbeat: Option<Duration>,
    payload: Range<usize>,
    bytes: Bytes,
}

#[derive(Deserialize)]
struct WireEnvelope<'a> {
    #[serde(borrow)]
    job_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    task_type: Option<Cow<'a, str>>,
    /// The id, in a message that starts a run. Other jobs may use a field of this name for
    /// something else, so it counts only if `job_id` is missing.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// The workflow, in a message that starts a run; it replaces the kind.
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

/// The part of `meta` that a chain's next job inherits.
#[derive(Default, Deserialize)]
struct Origin<'a> {
    #[serde(borrow)]
    correlation_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    source: Option<Cow<'a, str>>,
}

/// The prefix of a workflow's name in the kind of its tasks. It keeps tasks apart from activities
/// of the same name.
const TASK_KIND_PREFIX: &str = "workflow:";

/// The kind of a workflow's tasks.
pub fn task_kind(workflow: &WorkflowName) -> Kind {
    Kind::from_workflow(&format!("{TASK_KIND_PREFIX}{workflow}"))
}

impl WireEnvelope<'_> {
    /// Reads the id. The id of a run's task is reserved: no other job and no message that starts a
    /// run may have it.
    fn id(&self) -> Result<JobId, MalformedEnvelope> {
        let id = match &self.job_id {
            Some(id) => JobId::new(id),
            None => JobId::new(&text(self.id, "job_id")?),
        };
        let id = id.map_err(|error| MalformedEnvelope(error.to_string()))?;
        let is_task_kind = self.task_type.as_ref().is_some_and(|kind| kind.starts_with(TASK_KIND_PREFIX));
        match id.is_task() && !(is_task_kind && self.job_id.is_some()) {
            true => Err(MalformedEnvelope(format!("job id {id:?} is that of a run's task"))),
            false => Ok(id),
        }
    }

    fn kind(&self) -> Result<Kind, MalformedEnvelope> {
        let kind = match &self.task_type {
            Some(kind) => Kind::new(kind),
            None => Kind::new(&format!("{TASK_KIND_PREFIX}{}", text(self.workflow, "task_type")?)),
        };
        kind.map_err(|error| MalformedEnvelope(error.to_string()))
    }
}

/// A duration from an envelope, bounded because other programs may write any number.
fn bounded(ms: u64) -> Duration {
    Duration::from_millis(ms).min(MAX_DURATION)
}

/// Reads a required string.
fn text<'a>(raw: Option<&'a RawValue>, field: &str) -> Result<Cow<'a, str>, MalformedEnvelope> {
    let raw = raw.ok_or_else(|| MalformedEnvelope(format!("missing field `{field}`")))?;
    let FieldName(text) = serde_json::from_str(raw.get()).map_err(MalformedEnvelope::json)?;
    Ok(text)
}

impl Envelope {
    /// Reads an envelope. The bytes are kept unchanged.
    ///
    /// # Errors
    /// [`MalformedEnvelope`] for all bytes that [`Envelope::edit`] could not change. The attempts
    /// of such a job could not be counted, so it would never die.
    pub fn read(bytes: Bytes) -> Result<Self, MalformedEnvelope> {
        let wire: WireEnvelope<'_> =
            serde_json::from_str(object(&bytes)?).map_err(MalformedEnvelope::json)?;
        let payload = wire.payload.map_or(0..0, |raw| position(&bytes, raw.get()));
        Ok(Self {
            id: wire.id()?,
            kind: wire.kind()?,
            attempts: wire.attempts,
            postponed: wire.postponed,
            max_attempts: wire.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS).max(1),
            crashes: wire.crashes,
            timeout: wire.timeout_ms.map(bounded),
            keep_result: wire.keep_result_ms.map(bounded),
            tracked: wire.tracked.unwrap_or(true),
            requester: wire.run.zip(wire.seq).map(|(run, seq)| Requester { run, seq }),
            backoff: wire.backoff_ms.map(|ms| {
                let [base, max, jitter] = ms.map(bounded);
                Backoff { base, max, jitter }
            }),
            heartbeat: wire.heartbeat_ms.map(bounded),
            payload,
            bytes,
        })
    }

    /// The id of the job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The kind of the job (`task_type`).
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The number of counted attempts: failures and crashes.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The number of counted attempts after which the job is dead.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How often in a row the job was postponed with a reason, without counting an attempt.
    pub fn postponed(&self) -> u32 {
        self.postponed
    }

    /// The number of attempts that ended with the worker's death.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// The longest duration of one attempt, if the envelope specifies it.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// How long the result is kept for callers that wait for it; `None` if it is not kept.
    pub fn keep_result(&self) -> Option<Duration> {
        self.keep_result
    }

    /// Whether the job can be found by its id. True unless it was enqueued in bulk as untracked.
    pub fn tracked(&self) -> bool {
        self.tracked
    }

    /// The run that waits for this job, if any.
    pub fn requester(&self) -> Option<&Requester> {
        self.requester.as_ref()
    }

    /// The delays between attempts, if the envelope specifies them.
    pub fn backoff(&self) -> Option<Backoff> {
        self.backoff
    }

    /// The longest time without a heartbeat of the handler, if the envelope specifies it.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    /// The payload as JSON text.
    pub fn payload(&self) -> &[u8] {
        if self.payload.is_empty() { b"null" } else { &self.bytes[self.payload.clone()] }
    }

    /// The final states and outputs of the chains that the job waited for, in the order in which it
    /// named them.
    pub fn blockers(&self) -> Result<Vec<Blocker>, MalformedEnvelope> {
        #[derive(Deserialize)]
        struct WireBlockers {
            #[serde(default)]
            blockers: Vec<Blocker>,
        }
        let wire = serde_json::from_slice::<WireBlockers>(&self.bytes);
        wire.map(|wire| wire.blockers).map_err(MalformedEnvelope::json)
    }

    /// The id that is common to all jobs of a request, if the envelope has one. Parses the envelope
    /// again.
    pub fn correlation_id(&self) -> Option<String> {
        self.origin().correlation_id.map(Cow::into_owned)
    }

    /// The origin of the job. An envelope of another program may have a `meta` of another shape;
    /// then the origin is unknown.
    fn origin(&self) -> Origin<'_> {
        #[derive(Default, Deserialize)]
        struct Whole<'a> {
            #[serde(borrow, default)]
            meta: Origin<'a>,
        }
        serde_json::from_slice::<Whole<'_>>(&self.bytes).unwrap_or_default().meta
    }

    /// The envelope of the chain's next job: metadata of the chain is copied, that of the attempt
    /// is not.
    pub(crate) fn successor(&self, id: &JobId, next: &Continuation, now: Timestamp) -> Bytes {
        let meta = self.origin();
        let meta = Meta {
            correlation_id: meta.correlation_id.as_deref(),
            user_id: meta.user_id.as_deref(),
            enqueue_ts: now,
            source: meta.source.as_deref().unwrap_or("tidemill"),
        };
        let options = JobOptions {
            kind: &next.kind,
            max_attempts: next.max_attempts,
            timeout: next.timeout,
            keep_result: Some(self.keep_result.unwrap_or(DEFAULT_KEEP)),
            backoff: None,
            tracked: true,
            activity: None,
            meta,
        };
        options.template().enclose(id, &next.payload)
    }

    /// The whole envelope.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A copy with `edits` applied in order; all other bytes are preserved.
    ///
    /// # Errors
    /// [`MalformedEnvelope`] if the bytes cannot be edited. [`Envelope::read`] rejects such bytes.
    pub fn edit(&self, edits: &[Edit<'_>]) -> Result<Bytes, MalformedEnvelope> {
        edit::edit(object(&self.bytes)?, edits).map_err(MalformedEnvelope::json)
    }
}

/// The text of a JSON object, judged by its first byte. The parser alone would accept strings that
/// are not UTF-8 in fields it skips, and would read an array as a struct.
fn object(bytes: &[u8]) -> Result<&str, MalformedEnvelope> {
    let text = std::str::from_utf8(bytes).map_err(|error| MalformedEnvelope(error.to_string()))?;
    match text.trim_ascii_start().starts_with('{') {
        true => Ok(text),
        false => Err(MalformedEnvelope("no JSON object".to_owned())),
    }
}

/// The byte range of `part` within `whole`.
fn position(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Envelope, MalformedEnvelope> {
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
    fn a_time_without_end_is_read_as_the_longest_there_is() {
        let json = format!(
            r#"{{"job_id":"a","task_type":"t","keep_result_ms":{0},"timeout_ms":{0},"heartbeat_ms":{0},"backoff_ms":[{0},{0},{0}]}}"#,
            u64::MAX
        );
        let envelope = read(&json).unwrap();
        assert_eq!(envelope.bytes(), json.as_bytes());
        let Backoff { base, max, jitter } = envelope.backoff().unwrap();
        let times = [envelope.keep_result(), envelope.timeout(), envelope.heartbeat()].map(Option::unwrap);
        assert!(
            times.into_iter().chain([base, max, jitter]).all(|time| time == MAX_DURATION),
            "{envelope:?}"
        );
    }

    #[test]
    fn the_id_of_a_task_is_that_of_nothing_else() {
        assert!(read(r#"{"job_id":"a!task","task_type":"workflow:order"}"#).is_ok());
        for json in [r#"{"job_id":"a!task","task_type":"mail"}"#, r#"{"id":"a!task","workflowName":"order"}"#]
        {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains("\"a!task\" is that of a run's task"), "{error}");
        }
    }

    #[test]
    fn an_edit_leaves_foreign_fields_to_the_letter() {
        let envelope = read(SEED).unwrap();
        let edits = [Edit::Number("attempts", 1), Edit::Text("last_error", "a \"b\"\n")];
        let edited = envelope.edit(&edits).unwrap();
        let text = std::str::from_utf8(&edited).unwrap();
        assert!(text.contains(r#""x-trace":[1e400,{}]"#), "{text}");
        assert!(text.contains(r#""n":12345678901234567890.10"#), "{text}");
        assert!(
            text.contains(r#""attempts":1,"#) && text.ends_with(r#""last_error":"a \"b\"\n"}"#),
            "{text}"
        );
        let again = Envelope::read(edited).unwrap();
        assert_eq!(again.attempts(), 1);
        let removed = again.edit(&[Edit::Remove("last_error")]).unwrap();
        assert!(!String::from_utf8_lossy(&removed).contains("last_error"));
    }

    #[test]
    fn what_cannot_be_edited_is_no_envelope() {
        let latin1 = b"{\"job_id\":\"a\",\"task_type\":\"t\",\"meta\":{\"name\":\"Jos\xe9\"}}";
        let error = Envelope::read(Bytes::from_static(latin1)).unwrap_err().to_string();
        assert!(error.contains("utf-8") && error.contains("index 49"), "{error}");
        // Serde also reads a struct from an array of the right length.
        let array = r#"["a","t",null,null,0,0,null,null,0,null,null,null,null,null,null,null]"#;
        assert_eq!(read(array).unwrap_err().to_string(), "not an envelope: no JSON object");
        assert!(read(" \n{\"job_id\":\"a\",\"task_type\":\"t\"}").is_ok());
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
}
