//! Jobs, and how their attempts end.

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

/// What a job is like, where a case cares.
#[derive(Debug, Clone)]
pub struct Traits {
    /// What it does.
    pub kind: &'static str,
    /// Its payload, as JSON.
    pub payload: String,
    /// How often it is tried.
    pub max_attempts: u32,
    /// How long its record is kept.
    pub keep: Option<Duration>,
    /// When it may run.
    pub due: Due,
}

impl Default for Traits {
    fn default() -> Self {
        let payload = r#"{"n":1}"#.to_owned();
        Self { kind: "test", payload, max_attempts: DEFAULT_MAX_ATTEMPTS, keep: None, due: Due::Now }
    }
}

impl Traits {
    /// A new job like this.
    pub fn job(&self) -> NewJob {
        self.job_of(JobId::generate())
    }

    /// A new job like this that a store may leave out of its index.
    pub fn untracked(&self) -> NewJob {
        let id = JobId::generate();
        NewJob { envelope: self.envelope(&id, false), tracked: false, generated_id: true, ..self.job_of(id) }
    }

    /// A job like this with an id that may be in the store already.
    pub fn job_of(&self, id: JobId) -> NewJob {
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
            tracked,
            meta,
        };
        draft.template().fill(id, &payload).expect("an envelope").0
    }
}

/// A job like any other.
pub fn job() -> NewJob {
    Traits::default().job()
}

/// The envelope of a job that has one.
pub fn envelope(claimed: &Claimed) -> &Envelope {
    claimed.body.as_ref().expect("an envelope")
}

/// A handler's failure that is tried again after `delay`.
pub fn retry(delay: Duration) -> Outcome {
    Outcome::Retry { error: "it failed".to_owned(), after: Some(delay) }
}

/// A handler's good end.
pub fn done() -> Outcome {
    Outcome::Done(Bytes::from_static(b"42"))
}

/// A handler's verdict that trying again is pointless.
pub fn dead(reason: &str) -> Outcome {
    Outcome::Dead(DeathCause {
        reason: DeathReason::Other(reason.to_owned()),
        error: Some(format!("error of {reason}")),
    })
}
