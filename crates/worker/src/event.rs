//! The events that a worker publishes to its subscribers.

use std::fmt;
use std::time::Duration;

use tidemill_core::{Change, JobId, Kind, Outcome, Queue};

/// An attempt has ended, and the store has accepted its end.
#[derive(Debug, Clone)]
pub struct Event {
    /// The id of the job.
    pub job: JobId,
    /// The kind of the job.
    pub kind: Kind,
    /// The queue that it was claimed from.
    pub queue: Queue,
    /// How the attempt ended.
    pub outcome: EventKind,
    /// How long the handler ran.
    pub elapsed: Duration,
}

/// How an attempt ended, as a label for logs and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Successfully.
    Done,
    /// Successfully, by continuing with another job of its chain.
    Continued,
    /// With an error; it will be retried.
    Retried,
    /// With an error; the job was moved to the dead letters.
    Dead,
    /// It asked for more time.
    Snoozed,
    /// Its handler discarded the job.
    Discarded,
    /// The job was cancelled.
    Cancelled,
    /// It was handed back without an attempt.
    HandedBack,
}

impl EventKind {
    /// All variants.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Continued,
        Self::Retried,
        Self::Dead,
        Self::Snoozed,
        Self::Discarded,
        Self::Cancelled,
        Self::HandedBack,
    ];

    pub(crate) fn new(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(_) | Outcome::Commit(_) | Outcome::NotifyRun(_) | Outcome::Settled(_) => Self::Done,
            Outcome::Continue(_) => Self::Continued,
            Outcome::Retry { .. } | Outcome::TimedOut { .. } => Self::Retried,
            Outcome::Snooze(_) | Outcome::Postpone { .. } => Self::Snoozed,
            Outcome::Discard(_) => Self::Discarded,
            Outcome::Dead(_) => Self::Dead,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::HandedBack => Self::HandedBack,
        }
    }

    /// The kind after the decision: a retry that exceeds the limit of attempts is a death.
    pub(crate) fn after_decision(self, change: &Change) -> Self {
        if matches!(change, Change::Bury(_)) { Self::Dead } else { self }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Done => "done",
            Self::Continued => "continued",
            Self::Retried => "retried",
            Self::Dead => "dead",
            Self::Snoozed => "snoozed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::HandedBack => "handed_back",
        })
    }
}
