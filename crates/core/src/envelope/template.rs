//! New envelopes.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::backoff::Backoff;
use crate::clock::{Timestamp, millis};
use crate::name::{JobId, Kind};
use crate::workflow::{Requester, RunId};

/// What new envelopes have in common: everything but their id and payload. Made once for a bulk, because most
/// of an envelope is the same for all of them.
#[derive(Debug, Clone)]
pub struct EnvelopeTemplate {
    /// Between the id and the payload.
    middle: Vec<u8>,
    /// After the payload.
    end: Vec<u8>,
}

/// How a new job is to be treated.
#[derive(Debug, Clone)]
pub struct JobOptions<'a> {
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
    pub activity: Option<ActivityTerms<'a>>,
    /// Free facts about its origin.
    pub meta: Meta<'a>,
}

/// On which terms a run asks for a job.
#[derive(Debug, Clone)]
pub struct ActivityTerms<'a> {
    /// The run that is told how it ends.
    pub requester: &'a Requester,
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

impl JobOptions<'_> {
    /// Writes down what is the same for every job like this.
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
        let terms = self.activity.as_ref();
        let end = TemplateTail {
            meta: &self.meta,
            timeout_ms: self.timeout.map(millis),
            keep_result_ms: self.keep_result.map(millis),
            tracked: (!self.tracked).then_some(false),
            run: terms.map(|terms| &terms.requester.run),
            seq: terms.map(|terms| terms.requester.seq),
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
        EnvelopeTemplate { middle: middle.into_bytes(), end }
    }
}

impl EnvelopeTemplate {
    /// An envelope around a payload that is JSON already.
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
    use super::super::Envelope;
    use super::*;

    #[test]
    fn a_draft_reads_back() {
        let (id, kind) = (JobId::new("a\"b\\").unwrap(), Kind::new("mail").unwrap());
        let meta =
            Meta { correlation_id: Some("c"), user_id: None, enqueue_ts: Timestamp(0), source: "te\"st" };
        let draft = JobOptions {
            kind: &kind,
            max_attempts: 3,
            timeout: Some(Duration::from_secs(2)),
            keep_result: None,
            activity: None,
            tracked: false,
            meta,
        };
        let (bytes, size) = draft.template().fill(&id, &["a"]).unwrap();
        assert_eq!(size, 5);
        let whole: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(whole["meta"]["source"], "te\"st");
        let envelope = Envelope::read(bytes).unwrap();
        assert_eq!((envelope.id(), envelope.payload()), (&id, &br#"["a"]"#[..]));
        assert_eq!((envelope.timeout(), envelope.keep_result()), (Some(Duration::from_secs(2)), None));
        assert!(!envelope.tracked());
    }
}
