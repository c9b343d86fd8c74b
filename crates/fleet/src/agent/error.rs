//! Errors of an agent.

use std::io;
use std::path::PathBuf;

use tidemill_core::name::InvalidName;

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No program of this engine is installed.
    #[error("there is no {engine} browser in any of the usual places; name its program (--binary)")]
    NoBrowser {
        /// The engine's name.
        engine: &'static str,
    },
    /// The named program does not exist or is not executable.
    #[error("{} is no program that can be run", .0.display())]
    NotExecutable(PathBuf),
    /// Playwright's server needs Node.
    #[error("there is no `node` on the PATH, which Playwright's server needs")]
    NoNode,
    /// The directory contains no Playwright.
    #[error("there is no playwright-core in {} (nor in its node_modules)", .0.display())]
    NotPlaywright(PathBuf),
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An operating system call failed.
    #[error("cannot {what}")]
    Io {
        /// What the agent tried to do.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A task of the agent panicked.
    #[error("a part of the agent died: {0}")]
    TaskFailed(String),
}

impl AgentError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether the user can fix it by changing the agent's options.
    pub fn is_usage_error(&self) -> bool {
        matches!(self, Self::NotExecutable(_) | Self::NotPlaywright(_) | Self::Options(_) | Self::Name(_))
    }
}
