//! The errors of a run's handle.

use tidemill_core::Error;
use tidemill_core::workflow::{RunId, RunStatus, WorkflowName};

use crate::error::QueryError;

/// Why a run has no result, or did not accept a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It does not exist, or was pruned after its end.
    #[error("there is no run `{0}`")]
    NotFound(RunId),
    /// It has ended and accepts nothing more.
    #[error("run `{run}` has ended: {status}")]
    Closed {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// A run with the same key or id exists, and the conflict policy is to reject.
    #[error("run `{0}` is there already")]
    Exists(RunId),
    /// A run of another workflow has this id.
    #[error("run `{run}` is one of workflow `{workflow}`: give the new run another id")]
    OtherWorkflow {
        /// The run.
        run: RunId,
        /// That run's workflow.
        workflow: WorkflowName,
    },
    /// It failed.
    #[error("run `{run}` failed: {message}")]
    Failed {
        /// The run.
        run: RunId,
        /// The error.
        message: String,
    },
    /// It was cancelled.
    #[error("run `{0}` was cancelled")]
    Cancelled(RunId),
    /// It was terminated.
    #[error("run `{run}` was terminated: {reason}")]
    Terminated {
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// It rejected an update.
    #[error("run `{run}` refused the update: {message}")]
    Refused {
        /// The run.
        run: RunId,
        /// The reason.
        message: String,
    },
    /// A query has no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query's job was removed before a worker had answered it: its queue was purged, or the
    /// job was cancelled. It can be sent again.
    #[error("the question to run `{run}` was not answered: {why}")]
    Unanswered {
        /// The run.
        run: RunId,
        /// What happened to the job.
        why: String,
    },
    /// Its output or answer does not fit the type.
    #[error("what run `{0}` gave does not fit")]
    Unreadable(RunId, #[source] serde_json::Error),
    /// It did not happen in time.
    #[error("run `{run}` has given no {what} within {waited:?}")]
    TimedOut {
        /// The run.
        run: RunId,
        /// What was awaited.
        what: &'static str,
        /// For how long.
        waited: std::time::Duration,
    },
    /// The store failed or rejected the request.
    #[error(transparent)]
    Store(#[from] Error),
}
