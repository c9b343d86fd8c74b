//! What a worker tells whoever watches it.

use std::fmt;
use std::time::Duration;

use tidemill_core::{Change, JobId, Kind, Outcome, Queue};

/// A job's attempt has ended, and the store has accepted how.
#[derive(Debug, Clone)]
pub struct Event {
    /// Which job.
    pub job: JobId,
    /// What it does.
    pub kind: Kind,
    /// Where it was claimed.
    pub queue: Queue,
    /// How it ended.
    pub outcome: EventKind,
    /// How long its handler ran.
    pub elapsed: Duration,
}

/// How an attempt ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Well.
    Done,
    /// Well, by continuing with another job.
    Continued,
    /// Badly; it will be tried again.
    Retried,
    /// Badly, for good.
    Dead,
    /// It asked for more time.
    Snoozed,
    /// Its handler gave it up.
    Discarded,
    /// Somebody cancelled it.
    Cancelled,
    /// It went back untouched.
    HandedBack,
}

impl EventKind {
    /// Every ending.
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
            Outcome::Done(_) | Outcome::Commit(_) | Outcome::NotifyRun(_) => Self::Done,
            Outcome::Continue(_) => Self::Continued,
            Outcome::Retry { .. } | Outcome::TimedOut { .. } => Self::Retried,
            Outcome::Snooze(_) | Outcome::Postpone { .. } => Self::Snoozed,
            Outcome::Discard(_) => Self::Discarded,
            Outcome::Dead(_) => Self::Dead,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::HandedBack => Self::HandedBack,
        }
    }

    /// What it is once the decision has fallen: a retry may have been the last.
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
