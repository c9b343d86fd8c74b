//! Why an agent cannot work.

use std::io;
use std::path::PathBuf;

use tidemill_core::name::InvalidName;

/// Why an agent cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// There is no such browser here.
    #[error("there is no {engine} browser in any of the usual places; name its program (--binary)")]
    NoBrowser {
        /// Which.
        engine: &'static str,
    },
    /// A named program cannot be run.
    #[error("{} is no program that can be run", .0.display())]
    NotExecutable(PathBuf),
    /// Playwright's server needs Node.
    #[error("there is no `node` on the PATH, which Playwright's server needs")]
    NoNode,
    /// A directory without Playwright in it.
    #[error("there is no playwright-core in {} (nor in its node_modules)", .0.display())]
    NotPlaywright(PathBuf),
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The system refused something.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A part of the agent died.
    #[error("a part of the agent died: {0}")]
    Broken(String),
}

impl AgentError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether whoever described the agent can put it right by other words.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::NotExecutable(_) | Self::NotPlaywright(_) | Self::Options(_) | Self::Name(_))
    }
}
