//! What can go wrong at a store, by what the caller does about it.

use crate::envelope::Malformed;
use crate::name::InvalidName;

/// The cause behind an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or gave up half-way: whether the effect took place is unknown. Try again; every
    /// verb is safe to repeat.
    #[error("the store is not available: {message}")]
    Unavailable {
        /// What was tried.
        message: String,
        /// Why it failed.
        #[source]
        source: Option<BoxError>,
    },
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

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full(_))
    }

    /// The error and all its causes in one line.
    pub fn chain(&self) -> String {
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

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Self::Corrupt(error.to_string())
    }
}
