//! The log on stderr.

use tracing_subscriber::EnvFilter;

use super::Screen;

/// The log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Errors of the command itself.
    Errors,
    /// Warnings for operators.
    Warnings,
    /// What the worker's parts do.
    Infos,
    /// Everything.
    Debug,
}

impl LogLevel {
    /// The level for this many `-v`. The first `-v` prints finished jobs, which are not log
    /// messages.
    pub(crate) fn from_verbosity(verbose: u8) -> Self {
        match verbose {
            0 | 1 => Self::Warnings,
            2 => Self::Infos,
            _ => Self::Debug,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Errors => "error",
            Self::Warnings => "warn",
            Self::Infos => "info",
            Self::Debug => "debug",
        }
    }
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    // Not doc comments: documented values would lengthen every help page.
    // For people.
    #[default]
    Text,
    // One JSON object per line, for log collectors.
    Json,
}

/// Starts the log. `TIDEMILL_LOG` is a filter of tracing and overrides `level`.
pub(crate) fn start(level: LogLevel, format: LogFormat, screen: &Screen) {
    let filter = EnvFilter::try_from_env("TIDEMILL_LOG").unwrap_or_else(|_| EnvFilter::new(level.as_str()));
    let (writer, colours) = (screen.clone(), screen.style().has_colours());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    // Only the first logger of a process takes effect, and a process starts one.
    let _ = match format {
        LogFormat::Text => log.with_ansi(colours).with_target(false).compact().try_init(),
        LogFormat::Json => log.with_ansi(false).json().flatten_event(true).try_init(),
    };
}
