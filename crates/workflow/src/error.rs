//! What a workflow's code may run into.

use serde::{Deserialize, Serialize};
use tidemill_core::workflow::{ActivityFailure, ChildResult, FailureKind, Json, Timeout};

/// The run was asked to end, and this await is not shielded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run was asked to cancel")]
pub struct Cancelled;

/// What was to be handed on is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes, and at most {limit} are allowed")]
pub struct TooLarge {
    /// How many bytes of JSON it has.
    pub size: u64,
    /// How many are allowed: [`Limits::payload`](tidemill_core::limits::Limits) of the worker's client.
    pub limit: u64,
}

/// An activity has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// Its last attempt failed.
    #[error("activity `{activity}` failed in attempt {attempts}: {message}")]
    Failed {
        /// Which.
        activity: &'static str,
        /// What the last attempt said.
        message: String,
        /// How many were made.
        attempts: u32,
    },
    /// It took too long.
    #[error("activity `{activity}` exceeded its {which} timeout in attempt {attempts}")]
    TimedOut {
        /// Which.
        activity: &'static str,
        /// What took too long.
        which: Timeout,
        /// How many attempts were made.
        attempts: u32,
    },
    /// It was cancelled, or the run was asked to cancel.
    #[error("activity `{activity}` was cancelled")]
    Cancelled {
        /// Which.
        activity: &'static str,
    },
    /// It was not scheduled.
    #[error("activity `{activity}` was not scheduled: its input has {}", .too_large)]
    TooLarge {
        /// Which.
        activity: &'static str,
        /// How large its input is.
        too_large: TooLarge,
    },
}

impl ActivityError {
    pub(crate) fn of(activity: &'static str, failure: ActivityFailure) -> Self {
        let ActivityFailure { message, kind, attempts } = failure;
        match kind {
            FailureKind::Failed => Self::Failed { activity, message, attempts },
            FailureKind::TimedOut(which) => Self::TimedOut { activity, which, attempts },
            FailureKind::Cancelled => Self::Cancelled { activity },
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// A child has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    /// It failed, or could not be started.
    #[error("child workflow `{workflow}` failed: {message}")]
    Failed {
        /// Its type.
        workflow: &'static str,
        /// What went wrong.
        message: String,
    },
    /// It was cancelled, or the parent was asked to cancel.
    #[error("child workflow `{workflow}` was cancelled")]
    Cancelled {
        /// Its type.
        workflow: &'static str,
    },
    /// It was ended from outside.
    #[error("child workflow `{workflow}` was terminated")]
    Terminated {
        /// Its type.
        workflow: &'static str,
    },
    /// It was not started.
    #[error("child workflow `{workflow}` was not started: its input has {}", .too_large)]
    TooLarge {
        /// Its type.
        workflow: &'static str,
        /// How large its input is.
        too_large: TooLarge,
    },
}

impl ChildError {
    pub(crate) fn of(workflow: &'static str, end: ChildResult) -> Result<Json, Self> {
        match end {
            ChildResult::Ok(result) => Ok(result),
            ChildResult::Failed { message } => Err(Self::Failed { workflow, message }),
            ChildResult::Cancelled => Err(Self::Cancelled { workflow }),
            ChildResult::Terminated => Err(Self::Terminated { workflow }),
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// A signal did not reach the other run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The other run is closed, or there is none.
    #[error("signal `{signal}` was not delivered: {message}")]
    Undelivered {
        /// Which.
        signal: &'static str,
        /// Why not.
        message: String,
    },
    /// The run was asked to cancel before it was sent.
    #[error("signal `{signal}` was not sent: the run was asked to cancel")]
    Cancelled {
        /// Which.
        signal: &'static str,
    },
    /// It was not sent.
    #[error("signal `{signal}` was not sent: its payload has {}", .too_large)]
    TooLarge {
        /// Which.
        signal: &'static str,
        /// How large its payload is.
        too_large: TooLarge,
    },
}

/// A query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryError {
    /// The run is not there any more.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// The run is blocked: its code cannot be brought to where it is.
    #[error("the run is blocked: {0}")]
    Blocked(String),
    /// The workflow does not answer such queries, or not yet.
    #[error("the run answers no query `{0}`")]
    Unknown(String),
    /// The question or the answer does not fit its type.
    #[error("query `{query}` does not fit: {message}")]
    Unreadable {
        /// Which.
        query: String,
        /// What does not fit.
        message: String,
    },
    /// The code that answers it tried to change the run.
    #[error("query `{query}` must not change the run, but asks for: {asked}")]
    Changes {
        /// Which.
        query: String,
        /// What it asked for.
        asked: String,
    },
    /// The code that answers it panicked.
    #[error("query `{query}` panicked: {message}")]
    Panicked {
        /// Which.
        query: String,
        /// With what.
        message: String,
    },
}
