//! Why something cannot be said to a run, or it has no result.

use tidemill_core::Error;
use tidemill_core::workflow::{RunId, RunStatus, WorkflowName};

use crate::error::QueryError;

/// A run has no result, or does not take what it was to be told.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It never was, or it has been removed since its end.
    #[error("there is no run `{0}`")]
    NotFound(RunId),
    /// It has ended, and takes nothing any more.
    #[error("run `{run}` has ended: {status}")]
    Closed {
        /// Which.
        run: RunId,
        /// How.
        status: RunStatus,
    },
    /// It was not to be started if there is one like it, and this one is.
    #[error("run `{0}` is there already")]
    Exists(RunId),
    /// The id is that of a run of another workflow.
    #[error("run `{run}` is one of workflow `{workflow}`: give the new run another id")]
    OtherWorkflow {
        /// Which.
        run: RunId,
        /// Its type.
        workflow: WorkflowName,
    },
    /// It failed.
    #[error("run `{run}` failed: {message}")]
    Failed {
        /// Which.
        run: RunId,
        /// With what.
        message: String,
    },
    /// It ended because it was asked to.
    #[error("run `{0}` was cancelled")]
    Cancelled(RunId),
    /// It was ended from outside.
    #[error("run `{run}` was terminated: {reason}")]
    Terminated {
        /// Which.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// It refused an update.
    #[error("run `{run}` refused the update: {message}")]
    Refused {
        /// Which.
        run: RunId,
        /// Why.
        message: String,
    },
    /// A query has no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A question was taken away before a worker had answered it: its queue was purged, or the job that carries it was
    /// cancelled. It can be asked again.
    #[error("the question to run `{run}` was not answered: {why}")]
    Unanswered {
        /// Which.
        run: RunId,
        /// What became of it.
        why: String,
    },
    /// What it gave does not fit the type.
    #[error("what run `{0}` gave does not fit")]
    Unfit(RunId, #[source] serde_json::Error),
    /// It did not happen in time.
    #[error("run `{run}` has given no {what} within {waited:?}")]
    TimedOut {
        /// Which.
        run: RunId,
        /// What was waited for.
        what: &'static str,
        /// For how long.
        waited: std::time::Duration,
    },
    /// The store failed, or refused what it was asked for.
    #[error(transparent)]
    Store(#[from] Error),
}
