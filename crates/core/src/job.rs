//! The state machine of a job: its states and the allowed transitions.

use std::fmt;
use std::str::FromStr;

/// The state of a job. A job has exactly one state, and every transition is one atomic operation of
/// a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for other chains to close.
    Blocked,
    /// Waits for its due time.
    Scheduled,
    /// Waits for a worker.
    Ready,
    /// Leased to a worker.
    Running,
    /// Ended successfully.
    Done,
    /// Ended with a failure; stored in the dead letters.
    Dead,
    /// Cancelled by a caller, or discarded by its handler.
    Cancelled,
}

/// An event that changes a job's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEvent {
    /// The last chain it waited for has closed.
    Unblocked,
    /// Its due time has passed.
    Promoted,
    /// A worker claimed it.
    Claimed,
    /// Its handler returned an output or the next job of the chain.
    Finished,
    /// A caller other than the worker completed it.
    Completed,
    /// It runs again at once.
    Requeued,
    /// It runs again later.
    Postponed,
    /// It was moved to the dead letters.
    Buried,
    /// A caller cancelled it.
    Cancelled,
    /// It was moved from the dead letters back to its queue.
    Redriven,
}

/// The error for an event that is not possible in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {state} cannot be {event:?}")]
pub struct IllegalTransition {
    /// The state of the job.
    pub state: JobState,
    /// The event.
    pub event: JobEvent,
}

impl JobState {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Blocked, Self::Scheduled, Self::Ready, Self::Running, Self::Done, Self::Dead, Self::Cancelled];

    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalTransition`] if the event is not possible in this state.
    pub fn next(self, event: JobEvent) -> Result<Self, IllegalTransition> {
        use JobEvent as E;
        Ok(match (self, event) {
            // A job that is not due yet becomes scheduled instead, which is ready later.
            (Self::Blocked, E::Unblocked) => Self::Ready,
            (Self::Scheduled, E::Promoted) => Self::Ready,
            (Self::Ready, E::Claimed) => Self::Running,
            (Self::Running, E::Finished) => Self::Done,
            (Self::Running, E::Requeued) => Self::Ready,
            (Self::Running, E::Postponed) => Self::Scheduled,
            (Self::Running, E::Buried) => Self::Dead,
            (Self::Blocked | Self::Scheduled | Self::Ready | Self::Running, E::Completed) => Self::Done,
            (Self::Blocked | Self::Scheduled | Self::Ready | Self::Running, E::Cancelled) => Self::Cancelled,
            (Self::Dead, E::Redriven) => Self::Ready,
            (state, event) => return Err(IllegalTransition { state, event }),
        })
    }

    /// Whether the job has ended. A dead job can still be redriven.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for text that is not a job state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no job state: blocked, scheduled, ready, running, done, dead or cancelled")]
pub struct UnknownJobState(String);

impl FromStr for JobState {
    type Err = UnknownJobState;
    fn from_str(text: &str) -> Result<Self, UnknownJobState> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| UnknownJobState(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for state in JobState::ALL {
            assert_eq!(state.to_string().parse::<JobState>(), Ok(state));
        }
        assert!("gone".parse::<JobState>().is_err());
    }

    #[test]
    fn nothing_leaves_a_final_state_but_a_redriven_letter() {
        use JobEvent::*;
        for state in JobState::ALL.into_iter().filter(|state| state.is_final()) {
            let events = [
                Unblocked, Promoted, Claimed, Finished, Completed, Requeued, Postponed, Buried, Cancelled,
                Redriven,
            ];
            for event in events {
                let expected = state == JobState::Dead && event == Redriven;
                assert_eq!(state.next(event).is_ok(), expected, "{state} {event:?}");
            }
        }
    }

    #[test]
    fn an_illegal_move_names_both_sides() {
        let error = JobState::Ready.next(JobEvent::Finished).unwrap_err();
        assert_eq!(error.to_string(), "a job that is ready cannot be Finished");
    }
}
