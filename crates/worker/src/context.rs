//! What a handler can know about the job it runs.

use std::fmt;
use std::sync::Arc;

use tidemill_core::{Envelope, JobId, Kind, Queue, Timestamp};

use crate::assignment::Assignment;

/// The job a handler is running: who it is, how often it was tried, and whether somebody wants it to stop.
/// Cheap to clone; may be moved into tasks the handler starts.
#[derive(Clone)]
pub struct JobContext {
    assignment: Arc<Assignment>,
    deadline: Option<Timestamp>,
}

impl JobContext {
    pub(crate) fn new(assignment: Arc<Assignment>, deadline: Option<Timestamp>) -> Self {
        Self { assignment, deadline }
    }

    /// The job's identity: the same in every attempt, so it can serve as an idempotency key.
    pub fn id(&self) -> &JobId {
        self.envelope().id()
    }

    /// What the job does.
    pub fn kind(&self) -> &Kind {
        self.envelope().kind()
    }

    /// Where it was claimed.
    pub fn queue(&self) -> &Queue {
        &self.assignment.lease.queue
    }

    /// Which attempt this is: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.envelope().attempts().saturating_add(1)
    }

    /// How many attempts there are in all.
    pub fn max_attempts(&self) -> u32 {
        self.envelope().max_attempts()
    }

    /// When the attempt is given up, by the store's clock; `None` if it may take for ever.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// The whole envelope, with fields Tidemill does not know.
    pub fn envelope(&self) -> &Envelope {
        &self.assignment.envelope
    }

    /// Whether the handler should stop: the job was cancelled, its lease was lost, or the worker is leaving.
    ///
    /// A handler that never asks is dropped at its next `.await`. One that asks is given the worker's
    /// [`cancel_grace`](crate::Worker::cancel_grace) to wind up first.
    pub fn is_cancelled(&self) -> bool {
        self.assignment.stop.watch();
        self.assignment.stop.why().is_some()
    }

    /// Completes when the handler should stop; see [`is_cancelled`](Self::is_cancelled).
    pub async fn cancelled(&self) {
        self.assignment.stop.watch();
        self.assignment.stop.requested().await;
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, kind, attempt) = (self.id(), self.kind(), self.attempt());
        write!(f, "JobContext {{ job: {job}, kind: {kind}, attempt: {attempt} }}")
    }
}
