//! Dead letters: jobs that will not run again by themselves, stored whole for an operator.

pub mod redrive;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use bytes::Bytes;
use serde::Deserialize;

use crate::clock::Timestamp;
use crate::envelope::{Edit, Envelope, MalformedEnvelope};
use crate::name::JobId;
use crate::store::JobInfo;

/// The longest stored `last_error`, in bytes: enough for a stack trace, not for a page of HTML.
const MAX_ERROR_BYTES: usize = 8 << 10;

/// Why a job died: a built-in reason, or the handler's own text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeathReason {
    /// It used all its attempts.
    MaxAttemptsExceeded,
    /// Its bytes are not an envelope.
    InvalidEnvelope,
    /// Its payload does not match the handler's type.
    InvalidPayload,
    /// Unknown: another program wrote a letter that cannot be read.
    Unreadable,
    /// Its handler gave up, for this reason.
    Other(String),
}

impl fmt::Display for DeathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MaxAttemptsExceeded => "max_attempts_exceeded",
            Self::InvalidEnvelope => "invalid_envelope",
            Self::InvalidPayload => "invalid_payload",
            Self::Unreadable => "unreadable",
            Self::Other(reason) => reason,
        })
    }
}

impl FromStr for DeathReason {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "max_attempts_exceeded" => Self::MaxAttemptsExceeded,
            "invalid_envelope" => Self::InvalidEnvelope,
            "invalid_payload" => Self::InvalidPayload,
            "unreadable" => Self::Unreadable,
            other => Self::Other(other.to_owned()),
        })
    }
}

/// A dead job: its whole envelope plus `dlq_ts`, `dlq_reason` and `last_error`.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// The job. For bytes that are not an envelope, a generated name.
    pub job: JobId,
    /// When it died.
    pub at: Timestamp,
    /// The reason.
    pub reason: DeathReason,
    /// The last error message.
    pub last_error: Option<String>,
    /// The letter as it is stored.
    pub bytes: Bytes,
}

impl DeadLetter {
    /// Creates the letter of a job with a valid envelope.
    ///
    /// # Errors
    /// [`MalformedEnvelope`] if the envelope cannot be edited.
    pub fn new(
        envelope: &Envelope,
        attempts: u32,
        at: Timestamp,
        cause: DeathCause,
    ) -> Result<Self, MalformedEnvelope> {
        let (when, why) = (at.to_string(), cause.reason.to_string());
        let error = cause.error.map(shorten);
        let bytes = envelope.edit(&[
            Edit::Number("attempts", attempts.into()),
            Edit::Text("dlq_ts", &when),
            Edit::Text("dlq_reason", &why),
            error.as_deref().map_or(Edit::Remove("last_error"), |text| Edit::Text("last_error", text)),
        ])?;
        Ok(Self { job: envelope.id().clone(), at, reason: cause.reason, last_error: error, bytes })
    }

    /// Creates the letter of bytes that are not an envelope. It contains the bytes: as text if they
    /// are UTF-8, else in base64.
    pub fn from_malformed(job: &JobId, raw: &[u8], at: Timestamp, error: &MalformedEnvelope) -> Self {
        let last_error = error.to_string();
        let (field, text) = match std::str::from_utf8(raw) {
            Ok(text) => ("raw", text.to_owned()),
            Err(_) => ("raw_base64", base64::engine::general_purpose::STANDARD.encode(raw)),
        };
        let (when, why) = (at.to_string(), DeathReason::InvalidEnvelope.to_string());
        let [job_id, text, when, why, error] =
            [job.as_str(), &text, &when, &why, &last_error].map(serde_json::Value::from);
        let bytes = format!(
            r#"{{"job_id":{job_id},"{field}":{text},"dlq_ts":{when},"dlq_reason":{why},"last_error":{error}}}"#
        );
        let bytes = bytes.into();
        Self {
            job: job.clone(),
            at,
            reason: DeathReason::InvalidEnvelope,
            last_error: Some(last_error),
            bytes,
        }
    }

    /// The letter of a job that a store lists as dead. An unreadable letter is returned too: it is
    /// counted, so it must be possible to list and drop it.
    pub fn from_stored(info: &JobInfo) -> Self {
        Self::read(info.data.clone()).unwrap_or_else(|error| Self {
            job: info.job.clone(),
            at: Timestamp::default(),
            reason: DeathReason::Unreadable,
            last_error: Some(error.to_string()),
            bytes: info.data.clone(),
        })
    }

    /// Reads a stored letter, including one that another program wrote.
    ///
    /// # Errors
    /// [`MalformedEnvelope`] if it is not a JSON object or has no valid id.
    pub fn read(bytes: Bytes) -> Result<Self, MalformedEnvelope> {
        #[derive(Deserialize)]
        struct WireDeadLetter<'a> {
            job_id: Option<String>,
            /// The id, in a message that starts a run.
            #[serde(borrow)]
            id: Option<&'a serde_json::value::RawValue>,
            dlq_ts: Option<String>,
            dlq_reason: Option<String>,
            last_error: Option<String>,
        }
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(MalformedEnvelope::new("no JSON object".to_owned()));
        }
        let wire: WireDeadLetter<'_> =
            serde_json::from_slice(&bytes).map_err(|error| MalformedEnvelope::new(error.to_string()))?;
        let other = || serde_json::from_str::<String>(wire.id?.get()).ok();
        let job = wire.job_id.or_else(other).unwrap_or_default();
        let reason = wire.dlq_reason.as_deref().unwrap_or("unknown");
        Ok(Self {
            job: JobId::new(&job).map_err(|error| MalformedEnvelope::new(error.to_string()))?,
            at: wire.dlq_ts.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default(),
            reason: reason.parse().unwrap_or(DeathReason::InvalidEnvelope),
            last_error: wire.last_error,
            bytes,
        })
    }

    /// The envelope inside.
    ///
    /// # Errors
    /// [`MalformedEnvelope`] if the letter contains none.
    pub fn envelope(&self) -> Result<Envelope, MalformedEnvelope> {
        Envelope::read(self.bytes.clone())
    }
}

/// Why a job is moved to the dead letters: a reason to count and an error to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeathCause {
    /// The reason.
    pub reason: DeathReason,
    /// The error message.
    pub error: Option<String>,
}

pub(crate) fn shorten(mut error: String) -> String {
    if error.len() > MAX_ERROR_BYTES {
        let end = (0..=MAX_ERROR_BYTES).rev().find(|&end| error.is_char_boundary(end)).unwrap_or(0);
        error.truncate(end);
        error.push('…');
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_bytes_that_are_no_envelope() {
        let job = JobId::new("invalid-1").unwrap();
        let error = Envelope::read(Bytes::from_static(b"\xff{")).unwrap_err();
        let letter = DeadLetter::from_malformed(&job, b"\xff{", Timestamp(0), &error);
        let back = DeadLetter::read(letter.bytes.clone()).unwrap();
        assert_eq!(back.reason, DeathReason::InvalidEnvelope);
        assert!(std::str::from_utf8(&back.bytes).unwrap().contains("\"raw_base64\":\"/3s=\""));
        assert!(back.envelope().is_err());
    }

    #[test]
    fn a_message_that_was_to_start_a_run_is_a_letter_too() {
        let letter = |json: &'static str| DeadLetter::read(Bytes::from_static(json.as_bytes()));
        assert_eq!(letter(r#"{"id":"run-1","workflowName":"order"}"#).unwrap().job.as_str(), "run-1");
        assert_eq!(letter(r#"{"job_id":"a","id":1e400}"#).unwrap().job.as_str(), "a");
        assert!(letter(r#"{"id":7}"#).is_err());
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        let cut = shorten("é".repeat(MAX_ERROR_BYTES));
        assert!(cut.len() <= MAX_ERROR_BYTES + 4 && cut.ends_with('…'));
    }
}
