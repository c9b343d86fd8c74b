//! The log, on stderr: warnings, and more if asked for.

use tracing_subscriber::EnvFilter;

use super::Screen;

/// Starts the log. `TIDEMILL_LOG` says in tracing's own words what is wanted, else `-v` counts.
pub(crate) fn start(verbose: u8, screen: &Screen) {
    let level = match verbose {
        0 | 1 => "warn",
        2 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("TIDEMILL_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let (writer, colours) = (screen.clone(), screen.style().paint(super::Colour::Dim, "") != "");
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    // Only the first log of a process counts, and a process has one.
    let _ = log.with_ansi(colours).with_target(false).compact().try_init();
}
