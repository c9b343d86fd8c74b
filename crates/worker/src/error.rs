//! The errors of building and of running a worker.

use std::time::Duration;

use tidemill_core::name::InvalidName;
use tidemill_core::{Kind, Queue};

/// The configuration of a worker is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of a queue or of a kind is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// No queue was given.
    #[error("the worker has no queue: add one with `.queue(name, concurrency)`")]
    NoQueue,
    /// A queue was given twice.
    #[error("queue `{0}` is given twice")]
    DuplicateQueue(Queue),
    /// A queue has a concurrency of 0.
    #[error("queue `{0}` has a concurrency of 0: it would never run a job")]
    ZeroConcurrency(Queue),
    /// A kind has two handlers.
    #[error("kind `{0}` has two handlers")]
    DuplicateKind(Kind),
    /// Two fallback handlers were given.
    #[error("there are two fallback handlers")]
    DuplicateFallback,
    /// No handler was given.
    #[error("the worker has no handler: add one with `.handle(function)`")]
    NoHandler,
    /// A handler takes an argument that the builder cannot provide.
    #[error(
        "the handler of kind `{kind}` takes `{argument}`, which was not provided: add it with `{builder_call}`"
    )]
    MissingState {
        /// The kind that the handler is for.
        kind: String,
        /// The type of the argument.
        argument: String,
        /// The builder method that provides it.
        builder_call: &'static str,
    },
    /// Two values of one state type were given.
    #[error("state of type `{0}` is given twice")]
    DuplicateState(&'static str),
    /// The lease is too short to be renewed in time.
    #[error("a lease of {0:?} is too short: a heartbeat needs at least 100ms")]
    LeaseTooShort(Duration),
    /// The lease exceeds the range that stores can compute with.
    #[error("a lease of {0:?} is too long: at most 100 years are allowed")]
    LeaseTooLong(Duration),
    /// The settings of an extension are invalid.
    #[error("{0}")]
    Extension(String),
}

/// A worker failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A part of the worker ended before its shutdown, which is a bug. The other parts were shut
    /// down in order.
    #[error("the worker's {0} ended unexpectedly")]
    PartEnded(String),
}
