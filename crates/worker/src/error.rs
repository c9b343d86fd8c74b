//! What can be wrong with a worker before it runs, and when it has ended.

use std::time::Duration;

use tidemill_core::name::InvalidName;
use tidemill_core::{Kind, Queue};

/// A worker cannot be built as it was described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A queue's or a kind's name breaks the rules.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It would have nothing to do.
    #[error("the worker has no queue: add one with `.queue(name, concurrency)`")]
    NoQueue,
    /// A queue was named twice.
    #[error("queue `{0}` is given twice")]
    DuplicateQueue(Queue),
    /// A queue may run no job at all.
    #[error("queue `{0}` has a concurrency of 0: it would never run a job")]
    ZeroConcurrency(Queue),
    /// A kind has two handlers.
    #[error("kind `{0}` has two handlers")]
    DuplicateKind(Kind),
    /// There are two fallback handlers.
    #[error("there are two handlers for any kind")]
    DuplicateFallback,
    /// There is no handler at all.
    #[error("the worker has no handler: add one with `.handle(function)`")]
    NoHandler,
    /// A handler takes something that nobody gave.
    #[error(
        "the handler of kind `{kind}` takes `{argument}`, but nobody gave it: add it with `{builder_call}`"
    )]
    MissingState {
        /// Whose handler.
        kind: String,
        /// What it wants.
        argument: String,
        /// How it is given.
        builder_call: &'static str,
    },
    /// State of one type was given twice.
    #[error("state of type `{0}` is given twice")]
    DuplicateState(&'static str),
    /// The lease is too short to be kept.
    #[error("a lease of {0:?} is too short: a heartbeat needs at least 100ms")]
    LeaseTooShort(Duration),
    /// The lease is longer than stores can compute with.
    #[error("a lease of {0:?} is too long: at most 100 years are allowed")]
    LeaseTooLong(Duration),
    /// What an extension was told makes no sense.
    #[error("{0}")]
    Extension(String),
}

/// A worker did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// One of its parts ended before it was told to, which is a bug. The other parts were shut down in order.
    #[error("the worker's {0} ended unexpectedly")]
    PartEnded(String),
}
