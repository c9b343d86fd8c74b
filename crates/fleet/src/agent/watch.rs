//! The tasks of a browser: one starts it, one watches it until it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::launch::{LaunchSpec, StartedBrowser};
use super::temp_dirs::TempDirs;

/// The report of a browser task.
#[derive(Debug)]
pub(super) enum BrowserEvent {
    /// It is ready for clients.
    Started { number: u64, pool: usize, started: Box<StartedBrowser> },
    /// It did not start.
    NotStarted { pool: usize, reason: String },
    /// It is gone, with its processes and its directory.
    Ended { number: u64, end: BrowserEnd },
}

/// How a browser ended.
#[derive(Debug)]
pub(super) enum BrowserEnd {
    /// The agent closed it.
    Requested,
    /// It died or stopped answering.
    Unexpected(String),
}

/// A browser to start.
#[derive(Debug)]
pub(super) struct BrowserStart {
    pub(super) number: u64,
    pub(super) pool: usize,
    pub(super) launch: Arc<LaunchSpec>,
    pub(super) start_time: Duration,
    /// Cancels the start.
    pub(super) cancel: CancellationToken,
}

/// Starts a browser.
pub(super) async fn start(temp_dirs: Arc<TempDirs>, params: BrowserStart) -> BrowserEvent {
    let BrowserStart { number, pool, launch, start_time, cancel } = params;
    let starting = timeout(start_time, launch.start(&temp_dirs, number));
    let reason = match cancel.run_until_cancelled(starting).await {
        Some(Ok(Ok(started))) => return BrowserEvent::Started { number, pool, started: Box::new(started) },
        Some(Ok(Err(error))) => error.to_string(),
        Some(Err(_)) => format!("it was not ready within {start_time:?}"),
        None => "it is not wanted any more".to_owned(),
    };
    temp_dirs.remove_browser_dir(number).await;
    BrowserEvent::NotStarted { pool, reason }
}

/// Watches a browser until it dies, stops answering, or is closed. When this returns, nothing of it
/// is left.
pub(super) async fn watch(number: u64, started: StartedBrowser, close: CancellationToken) -> BrowserEvent {
    let StartedBrowser { mut process, mut probe, .. } = started;
    let end = tokio::select! {
        exit = process.wait() => {
            let status = exit.map_or_else(|error| error.to_string(), |status| status.to_string());
            BrowserEnd::Unexpected(format!("{status}; it said: {}", process.output_tail))
        }
        reason = probe.wait_for_failure() => BrowserEnd::Unexpected(reason),
        () = close.cancelled() => BrowserEnd::Requested,
    };
    process.destroy().await;
    BrowserEvent::Ended { number, end }
}
