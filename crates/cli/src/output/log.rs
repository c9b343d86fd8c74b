//! The log, on stderr: warnings, and more if asked for.

use tracing_subscriber::EnvFilter;

use super::Screen;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// What went wrong with the command itself.
    Errors,
    /// What an operator should know.
    Warnings,
    /// What the parts do.
    Infos,
    /// All there is.
    Debug,
}

impl Level {
    /// The level for this many `-v`. The first is for the jobs that end, which are no log.
    pub(crate) fn of(verbose: u8) -> Self {
        match verbose {
            0 | 1 => Self::Warnings,
            2 => Self::Infos,
            _ => Self::Debug,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Errors => "error",
            Self::Warnings => "warn",
            Self::Infos => "info",
            Self::Debug => "debug",
        }
    }
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    // Plain comments: documented values would make every help page long.
    // For people.
    #[default]
    Text,
    // One JSON object a line, for programs that collect logs.
    Json,
}

/// Starts the log. `TIDEMILL_LOG` says in tracing's own words what is wanted, else `level` counts.
pub(crate) fn start(level: Level, format: Format, screen: &Screen) {
    let filter = EnvFilter::try_from_env("TIDEMILL_LOG").unwrap_or_else(|_| EnvFilter::new(level.word()));
    let (writer, colours) = (screen.clone(), screen.style().has_colours());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    // Only the first log of a process counts, and a process has one.
    let _ = match format {
        Format::Text => log.with_ansi(colours).with_target(false).compact().try_init(),
        Format::Json => log.with_ansi(false).json().flatten_event(true).try_init(),
    };
}
