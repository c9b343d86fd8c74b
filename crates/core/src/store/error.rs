//! What can go wrong at a store, by what the caller does about it.

use crate::envelope::MalformedEnvelope;
use crate::name::InvalidName;

/// The cause behind an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or gave up half-way and undid what it had begun: nothing took place. Try again.
    #[error("the store is not available: {message}")]
    Unavailable {
        /// What was tried.
        message: String,
        /// Why it failed.
        #[source]
        source: Option<BoxError>,
    },
    /// The request was sent and its answer was lost: whether the effect took place is unknown. Try again; every verb
    /// is safe to repeat ([`retry`](crate::retry)). `enqueue` has been repeated by the store already.
    #[error("the answer of the store was lost, so it is not known whether it took effect: {message}")]
    Unanswered {
        /// What was tried.
        message: String,
        /// Why it failed.
        #[source]
        source: Option<BoxError>,
    },
    /// The effect took place, but not as safely as was asked for. Do not repeat it; tell the operator.
    #[error("{0}")]
    Unconfirmed(String),
    /// It takes no more: out of memory, disk full, or read-only. Nothing was written. Try again later.
    #[error("the store takes no writes: {0}")]
    Full(String),
    /// It does not allow this. Tell the operator.
    #[error("access denied: {0}")]
    Denied(String),
    /// It is not what it should be: the wrong version, schema, settings or kind of server. Tell the operator.
    #[error("the store cannot be used: {0}")]
    Unsuitable(String),
    /// The request is wrong. Tell the user. Nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// The thing asked for is not there.
    #[error("{0} not found")]
    NotFound(String),
    /// What is stored cannot be understood.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
}

impl Error {
    /// The store could not be reached.
    pub fn unavailable(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unavailable { message: message.into(), source: Some(source.into()) }
    }

    /// The store was asked and its answer was lost.
    pub fn unanswered(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unanswered { message: message.into(), source: Some(source.into()) }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.is_unavailable() || matches!(self, Self::Full(_))
    }

    /// Whether the store could not be reached, or its answer was lost.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unanswered { .. })
    }

    /// The same error once more, for another caller that waited for the same answer.
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

impl From<InvalidName> for Error {
    fn from(error: InvalidName) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<MalformedEnvelope> for Error {
    fn from(error: MalformedEnvelope) -> Self {
        Self::Corrupt(error.to_string())
    }
}
