//! Jobs and outcomes.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tidemill_core::chain::JobLinks;
use tidemill_core::clock::Timestamp;
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::envelope::{DEFAULT_MAX_ATTEMPTS, Envelope, JobOptions, Meta};
use tidemill_core::name::{JobId, Kind};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Claimed, Due, NewJob};

/// The properties of a job that a case may choose.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// Its kind.
    pub kind: &'static str,
    /// Its payload, as JSON.
    pub payload: String,
    /// Its maximum number of attempts.
    pub max_attempts: u32,
    /// How long its record is kept.
    pub keep: Option<Duration>,
    /// When it is due.
    pub due: Due,
}

impl Default for JobSpec {
    fn default() -> Self {
        let payload = r#"{"n":1}"#.to_owned();
        Self { kind: "test", payload, max_attempts: DEFAULT_MAX_ATTEMPTS, keep: None, due: Due::Now }
    }
}

impl JobSpec {
    /// A new job with these properties.
    pub fn job(&self) -> NewJob {
        self.job_with_id(JobId::generate())
    }

    /// A new job with these properties that a store may leave out of its index.
    pub fn untracked(&self) -> NewJob {
        let id = JobId::generate();
        NewJob {
            envelope: self.envelope(&id, false),
            tracked: false,
            generated_id: true,
            ..self.job_with_id(id)
        }
    }

    /// A job with these properties and an id that may exist in the store.
    pub fn job_with_id(&self, id: JobId) -> NewJob {
        NewJob {
            envelope: self.envelope(&id, true),
            id,
            due: self.due,
            tracked: true,
            generated_id: false,
            links: JobLinks::default(),
        }
    }

    fn envelope(&self, id: &JobId, tracked: bool) -> Bytes {
        let payload = RawValue::from_string(self.payload.clone()).expect("a payload of JSON");
        let meta = Meta { correlation_id: None, user_id: None, enqueue_ts: Timestamp(0), source: "testkit" };
        let draft = JobOptions {
            activity: None,
            kind: &Kind::new(self.kind).expect("a kind"),
            max_attempts: self.max_attempts,
            timeout: None,
            keep_result: self.keep,
            backoff: None,
            tracked,
            meta,
        };
        draft.template().fill(id, &payload).expect("an envelope").0
    }
}

/// A job with default properties.
pub fn job() -> NewJob {
    JobSpec::default().job()
}

/// The envelope of a claimed job.
pub fn envelope(claimed: &Claimed) -> &Envelope {
    claimed.body.as_ref().expect("an envelope")
}

/// A failure that is retried after `delay`.
pub fn retry(delay: Duration) -> Outcome {
    Outcome::Retry { error: "it failed".to_owned(), after: Some(delay) }
}

/// A success.
pub fn done() -> Outcome {
    Outcome::Done(Bytes::from_static(b"42"))
}

/// A failure that is not retried.
pub fn dead(reason: &str) -> Outcome {
    Outcome::Dead(DeathCause {
        reason: DeathReason::Other(reason.to_owned()),
        error: Some(format!("error of {reason}")),
    })
}
