//! What keeps a run from being carried on for now: its task goes back with the reason, and no attempt is counted.

use std::time::Duration;

use tidemill_core::workflow::{Version, WorkflowName};
use tidemill_core::{Envelope, Error, Kind, Outcome};
use tracing::warn;

use crate::halt::Halt;

/// How many workers see a task, about, before it rests because none of them knew its code.
const HOPS: u32 = 4;

/// Why a run is not carried on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Setback {
    /// Another worker may know it.
    #[error("no worker for version {version} of workflow `{workflow}`")]
    NoProgram { workflow: WorkflowName, version: Version },
    /// Another worker may know it.
    #[error(
        "no worker that knows workflow `{workflow}` also knows activity `{activity}`, which it runs inside its task"
    )]
    NoLocal { workflow: WorkflowName, activity: Kind },
    /// It waits for other code, or for somebody to look at it.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// The store could not say.
    #[error("{}", .0.chain())]
    Store(#[from] Error),
    /// Something else has to happen first, and soon will.
    #[error("{0}")]
    NotYet(String),
}

impl Setback {
    /// How long the task rests at first and at the longest. A worker that knows the code may be just starting; a run
    /// that is blocked waits for somebody to deploy something.
    fn rest(&self) -> [Duration; 2] {
        match self {
            Self::NotYet(_) => [Duration::from_millis(50), Duration::from_secs(5)],
            Self::NoProgram { .. } | Self::NoLocal { .. } => {
                [Duration::from_millis(200), Duration::from_secs(4)]
            }
            Self::Store(_) => [Duration::from_millis(500), Duration::from_secs(15)],
            Self::Halted(_) => [Duration::from_secs(1), Duration::from_secs(60)],
        }
    }

    /// Whether another worker may know what this one does not. One that waits for work right now should get the job, and
    /// workers that take turns must not meet it in the same order for ever: so most times it goes back at once.
    fn is_for_others(&self) -> bool {
        matches!(self, Self::NoProgram { .. } | Self::NoLocal { .. })
    }

    /// Puts the job back; the longer the more often that has happened in a row.
    pub(super) fn postpone(self, envelope: &Envelope) -> Outcome {
        let ([first, longest], hops) = (self.rest(), if self.is_for_others() { HOPS } else { 1 });
        let rest = first.saturating_mul(1 << (envelope.postponed() / hops).min(16)).min(longest);
        let after = match fastrand::u32(..hops) {
            // Runs that were blocked by one deployment do not all come back at once.
            0 => rest.mul_f64(1.0 + 0.25 * fastrand::f64()),
            _ => Duration::ZERO,
        };
        let error = self.to_string();
        if let Self::Halted(halt) = &self {
            warn!(run = %envelope.id(), why = halt.word(), "the run is blocked: {error}");
        }
        Outcome::Postpone { error, after }
    }
}
