//! The next job of a chain, as a handler describes it.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{check_blockers, json};
use crate::client::Job;
use crate::limits::{MAX_DELAY, check_duration};
use crate::name::{Guarantee, JobId, Kind, Queue, QueueName};
use crate::store::{Due, Error};

/// The next job of a chain, before it has an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The kind.
    pub kind: Kind,
    /// The queue. It must be at-least-once, because a chain must not get lost.
    pub queue: Queue,
    /// When it may run.
    pub due: Due,
    /// The payload, as JSON.
    pub payload: Bytes,
    /// The number of attempts.
    pub max_attempts: u32,
    /// The longest duration of one attempt.
    pub timeout: Option<Duration>,
    /// The chains it waits for.
    pub after: Vec<JobId>,
}

impl Continuation {
    /// A job whose kind is known only at run time.
    pub fn untyped(kind: Kind, queue: QueueName, payload: &RawValue) -> Self {
        Self {
            kind,
            queue: Queue::at_least_once(queue),
            due: Due::Now,
            payload: Bytes::copy_from_slice(payload.get().as_bytes()),
            max_attempts: crate::envelope::DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            after: Vec::new(),
        }
    }

    pub(super) fn typed<J: Job>(job: &J) -> Result<Self, Error> {
        Ok(Self {
            kind: Kind::new(J::KIND)?,
            queue: Queue { name: QueueName::new(J::QUEUE)?, guarantee: J::GUARANTEE },
            due: Due::Now,
            payload: json(job, "payload")?,
            max_attempts: J::MAX_ATTEMPTS,
            timeout: J::TIMEOUT,
            after: Vec::new(),
        })
    }

    /// Checks whether it may be enqueued, with payloads of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or [`Error::Invalid`] with the rule that it violates.
    pub fn check(&self, limit: usize) -> Result<(), Error> {
        Error::check_size("the payload", self.payload.len(), limit)?;
        if self.queue.guarantee != Guarantee::AtLeastOnce {
            let queue = &self.queue.name;
            return Err(Error::Invalid(format!(
                "a chain cannot continue on the at-most-once queue `{queue}`"
            )));
        }
        if self.max_attempts == 0 {
            return Err(Error::Invalid("max_attempts must be at least 1".into()));
        }
        if matches!(self.due, Due::In(delay) if delay > MAX_DELAY) {
            return Err(Error::Invalid("a job cannot be scheduled more than 100 years ahead".into()));
        }
        check_duration("the timeout", self.timeout.unwrap_or_default())?;
        check_blockers(&self.after)
    }
}
