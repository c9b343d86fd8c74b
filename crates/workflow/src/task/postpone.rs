//! Postponement: the reasons why a task is returned to its queue without counting an attempt.

use std::time::Duration;

use tidemill_core::workflow::{Version, WorkflowName};
use tidemill_core::{Envelope, Error, Kind, Outcome};
use tracing::warn;

use crate::blocked::Blocked;

/// How many workers see a task, on average, before it is delayed because none of them knows its
/// code.
const WORKERS_PER_DELAY: u32 = 4;

/// Why a task is postponed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostponeReason {
    /// Another worker may have this version.
    #[error("no worker for version {version} of workflow `{workflow}`")]
    NoProgram { workflow: WorkflowName, version: Version },
    /// Another worker may have this activity.
    #[error(
        "no worker that knows workflow `{workflow}` also knows activity `{activity}`, which it runs inside its task"
    )]
    NoLocalActivity { workflow: WorkflowName, activity: Kind },
    /// The run is blocked until its code or a limit changes.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The store failed.
    #[error("{}", .0.full_message())]
    Store(#[from] Error),
    /// Something else must happen first, and soon will.
    #[error("{0}")]
    NotYet(String),
}

impl PostponeReason {
    /// The first and the longest delay. A worker that knows the code may be starting right now,
    /// while a blocked run waits for a deployment.
    fn delay_range(&self) -> [Duration; 2] {
        match self {
            Self::NotYet(_) => [Duration::from_millis(50), Duration::from_secs(5)],
            Self::NoProgram { .. } | Self::NoLocalActivity { .. } => {
                [Duration::from_millis(200), Duration::from_secs(4)]
            }
            Self::Store(_) => [Duration::from_millis(500), Duration::from_secs(15)],
            Self::Blocked(_) => [Duration::from_secs(1), Duration::from_secs(60)],
        }
    }

    /// Whether another worker may know what this one does not. The job is then mostly returned
    /// without a delay, so that a waiting worker gets it. The random delay keeps workers from
    /// claiming it in the same order forever.
    fn may_suit_another_worker(&self) -> bool {
        matches!(self, Self::NoProgram { .. } | Self::NoLocalActivity { .. })
    }

    /// Returns the job to its queue. The delay grows with the number of postponements in a row.
    pub(super) fn postpone(self, envelope: &Envelope) -> Outcome {
        let ([first, longest], hops) =
            (self.delay_range(), if self.may_suit_another_worker() { WORKERS_PER_DELAY } else { 1 });
        let delay = first.saturating_mul(1 << (envelope.postponed() / hops).min(16)).min(longest);
        let after = match fastrand::u32(..hops) {
            // Jitter, so that runs blocked by one deployment are not retried all at once.
            0 => delay.mul_f64(1.0 + 0.25 * fastrand::f64()),
            _ => Duration::ZERO,
        };
        let error = self.to_string();
        if let Self::Blocked(blocked) = &self {
            warn!(run = %envelope.id(), why = blocked.as_str(), "the run is blocked: {error}");
        }
        Outcome::Postpone { error, after }
    }
}
