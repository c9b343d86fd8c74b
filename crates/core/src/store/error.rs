//! Errors of stores, classified by what the caller does.

use crate::envelope::MalformedEnvelope;
use crate::name::InvalidName;

/// The cause of an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a client or store operation, by what the caller does about it.
///
/// ```
/// # use tidemill_core::Error;
/// fn describe(error: &Error) -> String {
///     match error {
///         Error::TooLarge { size, limit, .. } => format!("{} bytes too many", size - limit),
///         Error::InvalidName(name) => format!("choose another {}", name.what()),
///         error if error.is_transient() => "try again later".into(),
///         error => error.full_message(),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is not reachable, or aborted and rolled back: nothing took place. Retry.
    #[error("the store is not available: {message}")]
    Unavailable {
        /// What was attempted.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// The request was sent and the answer was lost: it is unknown whether it took effect. Retry;
    /// every verb is safe to repeat ([`retry`](crate::retry)). `enqueue` has already been repeated
    /// by the store.
    #[error("the answer of the store was lost, so it is not known whether it took effect: {message}")]
    Unanswered {
        /// What was attempted.
        message: String,
        /// The cause.
        #[source]
        source: Option<BoxError>,
    },
    /// The operation took effect, but not as durably as required. Do not retry; inform the
    /// operator.
    #[error("{0}")]
    Unconfirmed(String),
    /// The store accepts no writes: out of memory, disk full, or read-only. Nothing was written.
    /// Retry later.
    #[error("the store takes no writes: {0}")]
    Full(String),
    /// The store denied access. Inform the operator.
    #[error("access denied: {0}")]
    Denied(String),
    /// The server has the wrong version, schema, settings or type. Inform the operator.
    #[error("the store cannot be used: {0}")]
    Unsuitable(String),
    /// The request is not valid. Inform the user. Nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// A name violates the rules of its type. Nothing was written.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A payload is larger than the limit. Nothing was written.
    #[error("{what} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes.
        size: usize,
        /// The largest allowed size in bytes: see [`Limits`](crate::Limits).
        limit: usize,
    },
    /// The requested object does not exist.
    #[error("{0} not found")]
    NotFound(String),
    /// Stored data cannot be read.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
}

impl Error {
    /// An [`Error::Unavailable`] with its cause.
    pub fn unavailable(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unavailable { message: message.into(), source: Some(source.into()) }
    }

    /// An [`Error::Unanswered`] with its cause.
    pub fn unanswered(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unanswered { message: message.into(), source: Some(source.into()) }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.is_unavailable() || matches!(self, Self::Full(_))
    }

    /// Whether the request itself is not valid, so that repeating it cannot help: an invalid
    /// option, an invalid name, or too large a payload.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::InvalidName(_) | Self::TooLarge { .. })
    }

    /// Whether the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Whether the operation took effect or may have: its answer was lost, or it was not confirmed
    /// by as many servers as required.
    pub fn may_have_taken_effect(&self) -> bool {
        matches!(self, Self::Unanswered { .. } | Self::Unconfirmed(_))
    }

    /// Rejects `what` if it has more than `limit` bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_size(what: impl Into<String>, size: usize, limit: usize) -> Result<(), Self> {
        if size > limit { Err(Self::TooLarge { what: what.into(), size, limit }) } else { Ok(()) }
    }

    /// Whether the store was not reachable or its answer was lost.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unanswered { .. })
    }

    /// A copy of the error, for another caller that waited for the same answer.
    pub fn duplicate(&self) -> Self {
        let cause = |source: &Option<BoxError>| source.as_ref().map(|source| source.to_string().into());
        match self {
            Self::Unavailable { message, source } => {
                Self::Unavailable { message: message.clone(), source: cause(source) }
            }
            Self::Unanswered { message, source } => {
                Self::Unanswered { message: message.clone(), source: cause(source) }
            }
            Self::Unconfirmed(message) => Self::Unconfirmed(message.clone()),
            Self::Full(message) => Self::Full(message.clone()),
            Self::Denied(message) => Self::Denied(message.clone()),
            Self::Unsuitable(message) => Self::Unsuitable(message.clone()),
            Self::Invalid(message) => Self::Invalid(message.clone()),
            Self::InvalidName(name) => Self::InvalidName(name.clone()),
            Self::TooLarge { what, size, limit } => {
                Self::TooLarge { what: what.clone(), size: *size, limit: *limit }
            }
            Self::NotFound(message) => Self::NotFound(message.clone()),
            Self::Corrupt(message) => Self::Corrupt(message.clone()),
        }
    }

    /// The error and all its causes in one line.
    pub fn full_message(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}

impl From<MalformedEnvelope> for Error {
    fn from(error: MalformedEnvelope) -> Self {
        Self::Corrupt(error.to_string())
    }
}
