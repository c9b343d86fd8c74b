//! The errors that a workflow's code handles, and the error it returns.

use std::any::Any;
use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use tidemill_core::workflow::{ActivityFailure, ChildResult, FailureKind, Json, Timeout};

/// The run was asked to cancel, and this await is not shielded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run was asked to cancel")]
pub struct RunCancelled;

/// A payload is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes, and at most {limit} are allowed")]
pub struct TooLarge {
    /// Its size in bytes of JSON.
    pub size: u64,
    /// The limit in bytes: [`Limits::payload`](tidemill_core::limits::Limits) of the worker's
    /// client.
    pub limit: u64,
}

/// Why an activity has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// Its last attempt failed.
    #[error("activity `{activity}` failed in attempt {attempts}: {message}")]
    Failed {
        /// The activity.
        activity: &'static str,
        /// The error of the last attempt.
        message: String,
        /// How many attempts were made.
        attempts: u32,
    },
    /// It exceeded a timeout.
    #[error("activity `{activity}` exceeded its {which} timeout in attempt {attempts}")]
    TimedOut {
        /// The activity.
        activity: &'static str,
        /// Which timeout.
        which: Timeout,
        /// How many attempts were made.
        attempts: u32,
    },
    /// It was cancelled, or the run was asked to cancel.
    #[error("activity `{activity}` was cancelled")]
    Cancelled {
        /// The activity.
        activity: &'static str,
    },
    /// It was not scheduled, because its input is too large.
    #[error("activity `{activity}` was not scheduled: its input has {}", .too_large)]
    TooLarge {
        /// The activity.
        activity: &'static str,
        /// The size of its input.
        too_large: TooLarge,
    },
}

impl ActivityError {
    pub(crate) fn from_failure(activity: &'static str, failure: ActivityFailure) -> Self {
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

/// Why a child has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    /// It failed, or could not be started.
    #[error("child workflow `{workflow}` failed: {message}")]
    Failed {
        /// The child's workflow.
        workflow: &'static str,
        /// The error.
        message: String,
    },
    /// It was cancelled, or the parent was asked to cancel.
    #[error("child workflow `{workflow}` was cancelled")]
    Cancelled {
        /// The child's workflow.
        workflow: &'static str,
    },
    /// It was terminated.
    #[error("child workflow `{workflow}` was terminated")]
    Terminated {
        /// The child's workflow.
        workflow: &'static str,
    },
    /// It was not started, because its input is too large.
    #[error("child workflow `{workflow}` was not started: its input has {}", .too_large)]
    TooLarge {
        /// The child's workflow.
        workflow: &'static str,
        /// The size of its input.
        too_large: TooLarge,
    },
}

impl ChildError {
    pub(crate) fn check_result(workflow: &'static str, end: ChildResult) -> Result<Json, Self> {
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

/// Why a signal did not reach the other run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The other run is closed or does not exist.
    #[error("signal `{signal}` was not delivered: {message}")]
    Undelivered {
        /// The signal.
        signal: &'static str,
        /// The reason.
        message: String,
    },
    /// The run was asked to cancel before it sent the signal.
    #[error("signal `{signal}` was not sent: the run was asked to cancel")]
    Cancelled {
        /// The signal.
        signal: &'static str,
    },
    /// It was not sent, because its payload is too large.
    #[error("signal `{signal}` was not sent: its payload has {}", .too_large)]
    TooLarge {
        /// The signal.
        signal: &'static str,
        /// The size of its payload.
        too_large: TooLarge,
    },
}

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryError {
    /// The run does not exist.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// The run is blocked, so its state cannot be rebuilt.
    #[error("the run is blocked: {0}")]
    Blocked(String),
    /// The workflow has no handler for this query, or has not registered it yet.
    #[error("the run answers no query `{0}`")]
    Unknown(String),
    /// The input or the answer does not fit its type.
    #[error("query `{query}` does not fit: {message}")]
    Unreadable {
        /// The query.
        query: String,
        /// What does not fit.
        message: String,
    },
    /// The query handler issued a command.
    #[error("query `{query}` must not change the run, but asks for: {asked}")]
    Changes {
        /// The query.
        query: String,
        /// The command.
        asked: String,
    },
    /// The query handler panicked.
    #[error("query `{query}` panicked: {message}")]
    Panicked {
        /// The query.
        query: String,
        /// The panic's message.
        message: String,
    },
}

/// How a workflow ends if it does not complete.
///
/// Every error converts into it, so `?` works on all of them. The error of a cancelled await
/// becomes a cancelled run. It does not implement `Error` itself, because that would conflict with
/// this conversion.
#[derive(Debug)]
pub struct WorkflowError(pub(crate) WorkflowErrorKind);

#[derive(Debug)]
pub(crate) enum WorkflowErrorKind {
    Failed(String),
    Cancelled(String),
    ContinueAsNew(Json),
    /// The output cannot be serialized.
    Unserializable(String),
}

impl WorkflowError {
    /// Fails the run with this message.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self(WorkflowErrorKind::Failed(message.to_string()))
    }

    /// Whether the run ends as cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, WorkflowErrorKind::Cancelled(_))
    }

    /// Whether the run continues as new, which is not a failure.
    pub fn is_continue_as_new(&self) -> bool {
        matches!(self.0, WorkflowErrorKind::ContinueAsNew(_))
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            WorkflowErrorKind::Failed(message) | WorkflowErrorKind::Cancelled(message) => {
                f.write_str(message)
            }
            WorkflowErrorKind::ContinueAsNew(_) => f.write_str("the run continues as new"),
            WorkflowErrorKind::Unserializable(message) => {
                write!(f, "the output cannot be written: {message}")
            }
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        let message = with_causes(&error);
        Self(if is_cancellation(&error) {
            WorkflowErrorKind::Cancelled(message)
        } else {
            WorkflowErrorKind::Failed(message)
        })
    }
}

fn is_cancellation(error: &dyn Any) -> bool {
    error.is::<RunCancelled>()
        || error.downcast_ref().is_some_and(ActivityError::is_cancelled)
        || error.downcast_ref().is_some_and(ChildError::is_cancelled)
        || matches!(error.downcast_ref(), Some(SignalError::Cancelled { .. }))
}

/// The error and its causes in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_mark_keeps_cancellation_apart_from_failure() {
        let cancelled = WorkflowError::from(ActivityError::Cancelled { activity: "charge" });
        assert!(cancelled.is_cancelled() && WorkflowError::from(RunCancelled).is_cancelled());
        let failed = WorkflowError::from("x".parse::<u8>().unwrap_err());
        assert_eq!(
            (failed.is_cancelled(), failed.to_string()),
            (false, "invalid digit found in string".into())
        );
    }
}
