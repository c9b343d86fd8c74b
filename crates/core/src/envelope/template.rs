//! Templates for new envelopes.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::backoff::Backoff;
use crate::clock::{Timestamp, millis};
use crate::name::{JobId, Kind};
use crate::workflow::{Requester, RunId};

/// The common part of new envelopes: everything but id and payload. A bulk creates it once, because
/// most of an envelope is the same for all its jobs.
#[derive(Debug, Clone)]
pub struct EnvelopeTemplate {
    /// The bytes between the id and the payload.
    middle: Vec<u8>,
    /// The bytes after the payload.
    end: Vec<u8>,
}

/// The options of a new job.
#[derive(Debug, Clone)]
pub struct JobOptions<'a> {
    /// The kind.
    pub kind: &'a Kind,
    /// The number of attempts.
    pub max_attempts: u32,
    /// The longest duration of one attempt.
    pub timeout: Option<Duration>,
    /// How long the result is kept.
    pub keep_result: Option<Duration>,
    /// The delays between attempts; those of the handler if `None`.
    pub backoff: Option<Backoff>,
    /// Whether the job can be found by its id while it waits.
    pub tracked: bool,
    /// Options of an activity, if a run schedules the job.
    pub activity: Option<ActivityTerms<'a>>,
    /// Metadata about the origin.
    pub meta: Meta<'a>,
}

/// Options of a job that a run schedules.
#[derive(Debug, Clone)]
pub struct ActivityTerms<'a> {
    /// The run that receives the result.
    pub requester: &'a Requester,
    /// The longest time without a heartbeat of the handler.
    pub heartbeat: Option<Duration>,
}

/// The envelope's `meta`: the origin of a job. It has no influence on how the job runs.
#[derive(Debug, Clone, Serialize)]
pub struct Meta<'a> {
    /// Correlates the jobs of one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<&'a str>,
    /// The user on whose behalf the job runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<&'a str>,
    /// The time of the enqueue.
    pub enqueue_ts: Timestamp,
    /// The program that enqueued it.
    pub source: &'a str,
}

impl JobOptions<'_> {
    /// Creates the template for jobs with these options.
    pub fn template(&self) -> EnvelopeTemplate {
        #[derive(Serialize)]
        struct TemplateTail<'a> {
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
        let activity = self.activity.as_ref();
        let end = TemplateTail {
            meta: &self.meta,
            timeout_ms: self.timeout.map(millis),
            keep_result_ms: self.keep_result.map(millis),
            tracked: (!self.tracked).then_some(false),
            run: activity.map(|activity| &activity.requester.run),
            seq: activity.map(|activity| activity.requester.seq),
            backoff_ms: self.backoff.map(|backoff| [backoff.base, backoff.max, backoff.jitter].map(millis)),
            heartbeat_ms: activity.and_then(|activity| activity.heartbeat).map(millis),
        };
        let middle = format!(
            r#","task_type":"{}","attempts":0,"max_attempts":{},"payload":"#,
            self.kind, self.max_attempts
        );
        // Strings and numbers always serialise. The object's opening brace becomes the comma after
        // the payload.
        let mut end = serde_json::to_vec(&end).unwrap_or_else(|_| b"{}".to_vec());
        end[0] = b',';
        EnvelopeTemplate { middle: middle.into_bytes(), end }
    }
}

impl EnvelopeTemplate {
    /// Creates an envelope around a payload that is JSON already.
    pub(super) fn enclose(&self, id: &JobId, payload: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(self.middle.len() + self.end.len() + payload.len() + 160);
        out.extend_from_slice(br#"{"job_id":"#);
        // An id is printable text, which always serialises.
        let _ = serde_json::to_writer(&mut out, id.as_str());
        out.extend_from_slice(&self.middle);
        out.extend_from_slice(payload);
        out.extend_from_slice(&self.end);
        out.into()
    }

    /// Creates an envelope around `payload`; also returns the payload's size in bytes. `job_id`
    /// comes first, so that scripts find it without parsing the rest.
    ///
    /// # Errors
    /// Fails if `payload` cannot be serialised.
    pub fn fill(
        &self,
        id: &JobId,
        payload: &(impl Serialize + ?Sized),
    ) -> serde_json::Result<(Bytes, usize)> {
        let mut out = Vec::with_capacity(self.middle.len() + self.end.len() + 256);
        out.extend_from_slice(br#"{"job_id":"#);
        serde_json::to_writer(&mut out, id.as_str())?;
        out.extend_from_slice(&self.middle);
        let payload_start = out.len();
        serde_json::to_writer(&mut out, payload)?;
        let size = out.len() - payload_start;
        out.extend_from_slice(&self.end);
        Ok((out.into(), size))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Envelope;
    use super::*;

    #[test]
    fn a_new_envelope_reads_back() {
        let (id, kind) = (JobId::new("a\"b\\").unwrap(), Kind::new("mail").unwrap());
        let meta =
            Meta { correlation_id: Some("c"), user_id: None, enqueue_ts: Timestamp(0), source: "te\"st" };
        let options = JobOptions {
            kind: &kind,
            max_attempts: 3,
            timeout: Some(Duration::from_secs(2)),
            keep_result: None,
            backoff: Some(Backoff::exponential(Duration::from_secs(2), Duration::from_secs(60))),
            activity: None,
            tracked: false,
            meta,
        };
        let (bytes, size) = options.template().fill(&id, &["a"]).unwrap();
        assert_eq!(size, 5);
        let whole: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(whole["meta"]["source"], "te\"st");
        let envelope = Envelope::read(bytes).unwrap();
        assert_eq!((envelope.id(), envelope.payload()), (&id, &br#"["a"]"#[..]));
        assert_eq!((envelope.timeout(), envelope.keep_result()), (Some(Duration::from_secs(2)), None));
        assert!(!envelope.tracked());
        let jitter = Duration::from_secs(2);
        let (base, max) = (Duration::from_secs(2), Duration::from_secs(60));
        assert_eq!(envelope.backoff(), Some(Backoff { base, max, jitter }));
    }
}
