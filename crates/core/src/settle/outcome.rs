//! The outcome of an attempt.

use std::time::Duration;

use bytes::Bytes;

use crate::chain::Continuation;
use crate::dead_letter::DeathCause;
use crate::store::Verdict;
use crate::store::runs::CommitParams;
use crate::workflow::{RunEvent, Timeout};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with this output (JSON).
    Done(Bytes),
    /// Failure: retry after `after`, or after the backoff.
    Retry {
        /// The error message.
        error: String,
        /// The delay before the next attempt, if the handler specifies it.
        after: Option<Duration>,
    },
    /// Failure by timeout: retry after the backoff.
    TimedOut {
        /// Which timeout.
        what: Timeout,
        /// The error message.
        error: String,
    },
    /// Run again after this duration; counts no attempt.
    Snooze(Duration),
    /// Run again after `after`, with a reason that is shown with the job; counts no attempt.
    Postpone {
        /// The reason.
        error: String,
        /// The delay.
        after: Duration,
    },
    /// End the job as cancelled, for this reason.
    Discard(String),
    /// Failure without retry: move the job to the dead letters.
    Dead(DeathCause),
    /// The job was cancelled while it ran.
    Cancelled,
    /// Success: the chain continues with this job.
    Continue(Box<Continuation>),
    /// The task of a run: this is its commit.
    Commit(Box<CommitParams>),
    /// Success: deliver this event, if any, to the run that waits for the job.
    NotifyRun(Option<Box<RunEvent>>),
    /// The transaction of the handler has ended the job, or has found its lease lost. Only
    /// [`Uncommitted::commit`](crate::transaction::Uncommitted::commit) returns it.
    Settled(Verdict),
    /// The job did not run, or the worker is shutting down: return it to the queue unchanged.
    HandedBack,
}

impl Outcome {
    /// Whether the attempt succeeded.
    pub fn is_success(&self) -> bool {
        matches!(
            self,
            Self::Done(_) | Self::Continue(_) | Self::Commit(_) | Self::NotifyRun(_) | Self::Settled(_)
        )
    }
}
