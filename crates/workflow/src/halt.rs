//! Why a run cannot be carried on. A halt never fails the run: it waits for what heals it.

use std::fmt;

use tidemill_core::workflow::{RunId, Version, WorkflowName};

use crate::foreign::Foreign;

/// The machine stopped. It is of no use any more; the journal is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The code does not do what the journal says it did. Heals when the right code is deployed.
    #[error(transparent)]
    Diverged(Box<Divergence>),
    /// The code awaits something that is not Tidemill's. Heals when the code is changed.
    #[error(transparent)]
    Foreign(Box<Foreign>),
    /// The code panicked. Worth trying again later, and heals when the code is changed.
    #[error("workflow `{workflow}` panicked: {message}")]
    Panicked {
        /// Whose code.
        workflow: WorkflowName,
        /// With what, and where if that is known.
        message: String,
    },
    /// A value does not fit the type the code gives it. Heals when the right code is deployed.
    #[error("{what} does not fit its type: {message}")]
    Unreadable {
        /// Which value.
        what: String,
        /// What does not fit.
        message: String,
    },
    /// The code asks for something where it may not.
    #[error("workflow `{workflow}` asks for something inside a side effect: {asked}")]
    Misplaced {
        /// Whose code.
        workflow: WorkflowName,
        /// What it asked for.
        asked: String,
    },
    /// The journal cannot be one of a run. Nothing heals it but an older copy.
    #[error("the journal makes no sense at entry {position}: {message}")]
    Damaged {
        /// Where.
        position: u64,
        /// Why not.
        message: String,
    },
    /// What the run is to end or to go on with is too large. Heals when more is allowed, or the code is changed.
    #[error("{what} has {size} bytes, and at most {limit} are allowed")]
    TooLarge {
        /// What it is.
        what: String,
        /// How many bytes it has.
        size: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The journal is too long. Heals when the limit is raised.
    #[error(
        "the journal has grown to {length} entries, and {limit} are allowed: the run must continue as new"
    )]
    TooLong {
        /// How long it is.
        length: u64,
        /// How long it may be.
        limit: u64,
    },
}

impl Halt {
    /// Whether the same code may get further if it is tried again. All else waits for a deployment.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, Self::Panicked { .. })
    }

    /// A word for it, to be counted.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Diverged(_) => "diverged",
            Self::Foreign(_) => "foreign_await",
            Self::Panicked { .. } => "panicked",
            Self::Unreadable { .. } => "unreadable",
            Self::Misplaced { .. } => "misplaced",
            Self::Damaged { .. } => "damaged",
            Self::TooLarge { .. } => "too_large",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// The first difference between what the code does and what the journal says it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Whose code.
    pub workflow: WorkflowName,
    /// Of which version.
    pub version: Version,
    /// Whose journal.
    pub run: RunId,
    /// The entry they disagree about: a commit.
    pub position: u64,
    /// Which of its commands, from 1; one more than it has for its end.
    pub index: usize,
    /// What the journal has.
    pub expected: String,
    /// What the code did.
    pub got: String,
    /// The entry of the event that was being consumed.
    pub consumed: u64,
    /// What event that is.
    pub event: &'static str,
}

impl std::error::Error for Divergence {}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, version, run, position, index, expected, got, consumed, event } = self;
        writeln!(f, "workflow `{workflow}` {version} does not agree with the journal of run `{run}`")?;
        writeln!(f, "  at:      entry {position}, command {index}")?;
        writeln!(f, "  journal: {expected}")?;
        writeln!(f, "  code:    {got}")?;
        writeln!(f, "  while:   consuming entry {consumed}, `{event}`")?;
        write!(f, "the run goes on when code that agrees is deployed; `ctx.patched` lets old and new agree")
    }
}
