//! The life of a job: its states and the only moves between them.

use std::fmt;
use std::str::FromStr;

/// Where a job is. It is in one place only, and every move is one atomic effect of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for other chains to close.
    Blocked,
    /// Waits for its time.
    Scheduled,
    /// Waits for a worker.
    Ready,
    /// Leased by a worker.
    Running,
    /// Ended well.
    Done,
    /// Ended badly; kept in the dead letters.
    Dead,
    /// Ended because someone asked for it, or its handler discarded it.
    Cancelled,
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEvent {
    /// The last chain it waited for has closed.
    Unblocked,
    /// Its time has come.
    Promoted,
    /// A worker took it.
    Claimed,
    /// Its handler finished, or continued with another job.
    Finished,
    /// Somebody outside said how it ended.
    Completed,
    /// It has to run again, at once.
    Requeued,
    /// It has to run again, later.
    Postponed,
    /// It will not run again by itself.
    Buried,
    /// Somebody does not want it any more.
    Cancelled,
    /// It was brought back from the dead letters.
    Redriven,
}

/// An event that cannot happen to a job in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {state} cannot be {event:?}")]
pub struct IllegalTransition {
    /// Where the job is.
    pub state: JobState,
    /// What was to happen to it.
    pub event: JobEvent,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Blocked, Self::Scheduled, Self::Ready, Self::Running, Self::Done, Self::Dead, Self::Cancelled];

    /// The state after `event`.
    pub fn next(self, event: JobEvent) -> Result<Self, IllegalTransition> {
        use JobEvent as E;
        Ok(match (self, event) {
            // One that is not due yet is then scheduled, which is to be ready later.
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

    const fn word(self) -> &'static str {
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
        f.pad(self.word())
    }
}

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no job state: blocked, scheduled, ready, running, done, dead or cancelled")]
pub struct UnknownJobState(String);

impl FromStr for JobState {
    type Err = UnknownJobState;
    fn from_str(word: &str) -> Result<Self, UnknownJobState> {
        let found = Self::ALL.into_iter().find(|state| state.word() == word);
        found.ok_or_else(|| UnknownJobState(word.chars().take(64).collect()))
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
