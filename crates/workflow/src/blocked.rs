//! The reasons why a run is blocked. A blocked run has not failed: it continues when the cause is
//! removed.

use std::fmt;

use tidemill_core::workflow::{RunId, Version, WorkflowName};

use crate::foreign_await::ForeignAwait;

/// Why a run is blocked. The replayer that returned it cannot be used again; the journal is
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// The code does not do what the journal recorded. Ends when matching code is deployed.
    #[error(transparent)]
    Diverged(Box<Divergence>),
    /// The code awaits a future that does not come from its `Ctx`. Ends when the code changes.
    #[error(transparent)]
    ForeignAwait(Box<ForeignAwait>),
    /// The code panicked. Retried, because a panic may be transient.
    #[error("workflow `{workflow}` panicked: {message}")]
    Panicked {
        /// The workflow.
        workflow: WorkflowName,
        /// The panic's message, and its location if known.
        message: String,
    },
    /// A value does not fit the type that the code gives it. Ends when matching code is deployed.
    #[error("{what} does not fit its type: {message}")]
    Unreadable {
        /// Which value.
        what: String,
        /// What does not fit.
        message: String,
    },
    /// The code issued a command inside a side effect.
    #[error("workflow `{workflow}` asks for something inside a side effect: {command}")]
    Misplaced {
        /// The workflow.
        workflow: WorkflowName,
        /// The command.
        command: String,
    },
    /// The journal is not a valid journal of a run. Only a restored copy helps.
    #[error("the journal makes no sense at entry {position}: {message}")]
    Damaged {
        /// The entry's position.
        position: u64,
        /// What is wrong with it.
        message: String,
    },
    /// The run's output, or its input to continue as new, is too large. Ends when the limit is
    /// raised or the code changes.
    #[error("{what} has {size} bytes, and at most {limit} are allowed")]
    TooLarge {
        /// Which value.
        what: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The journal is too long. Ends when the limit is raised.
    #[error(
        "the journal has grown to {length} entries, and {limit} are allowed: the run must continue as new"
    )]
    TooLong {
        /// Its length in entries.
        length: u64,
        /// The limit in entries.
        limit: u64,
    },
}

impl Blocked {
    /// Whether a retry with the same code may succeed. All other reasons need a deployment.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, Self::Panicked { .. })
    }

    /// A label for logs and counters.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Diverged(_) => "diverged",
            Self::ForeignAwait(_) => "foreign_await",
            Self::Panicked { .. } => "panicked",
            Self::Unreadable { .. } => "unreadable",
            Self::Misplaced { .. } => "misplaced",
            Self::Damaged { .. } => "damaged",
            Self::TooLarge { .. } => "too_large",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// The first difference between what the code does and what the journal recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The workflow.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: Version,
    /// The run.
    pub run: RunId,
    /// The position of the commit where they differ.
    pub position: u64,
    /// The index of the command in that commit, from 1. One more than the last for the commit's
    /// end.
    pub index: usize,
    /// What the journal recorded.
    pub expected: String,
    /// What the code did.
    pub got: String,
    /// The position of the event that was being consumed.
    pub consumed: u64,
    /// The name of that event.
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
