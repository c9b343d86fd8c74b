//! How a workflow ends when it does not succeed.

use std::any::Any;
use std::error::Error;
use std::fmt;

use tidemill_core::workflow::Json;

use crate::error::{ActivityError, Cancelled, ChildError, SignalError};

/// How a workflow ends that does not succeed.
///
/// Any error converts into it, so `?` works on everything; the errors of a cancelled await become a cancelled run.
/// It is no error type itself, so that this conversion can be.
#[derive(Debug)]
pub struct WorkflowError(pub(crate) Ending);

#[derive(Debug)]
pub(crate) enum Ending {
    Failed(String),
    Cancelled(String),
    ContinueAsNew(Json),
    /// What the code returned cannot be written down.
    Unwritable(String),
}

impl WorkflowError {
    /// The run fails with this message.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self(Ending::Failed(message.to_string()))
    }

    /// Whether the run ends because it was asked to.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Ending::Cancelled(_))
    }

    /// Whether the run goes on under an empty journal, which is no failure.
    pub fn is_continue_as_new(&self) -> bool {
        matches!(self.0, Ending::ContinueAsNew(_))
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ending::Failed(message) | Ending::Cancelled(message) => f.write_str(message),
            Ending::ContinueAsNew(_) => f.write_str("the run continues as new"),
            Ending::Unwritable(message) => write!(f, "the output cannot be written: {message}"),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        let message = with_causes(&error);
        Self(if is_cancellation(&error) { Ending::Cancelled(message) } else { Ending::Failed(message) })
    }
}

fn is_cancellation(error: &dyn Any) -> bool {
    error.is::<Cancelled>()
        || error.downcast_ref().is_some_and(ActivityError::is_cancelled)
        || error.downcast_ref().is_some_and(ChildError::is_cancelled)
        || matches!(error.downcast_ref(), Some(SignalError::Cancelled { .. }))
}

/// The error and all its causes in one line.
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
        assert!(cancelled.is_cancelled() && WorkflowError::from(Cancelled).is_cancelled());
        let failed = WorkflowError::from("x".parse::<u8>().unwrap_err());
        assert_eq!(
            (failed.is_cancelled(), failed.to_string()),
            (false, "invalid digit found in string".into())
        );
    }
}
