//! The settings of a worker.

use std::time::Duration;

use tidemill_core::store::runs::PruneRunsParams;

/// How a worker behaves, as far as a user may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// For how long jobs are claimed.
    pub(crate) lease: Duration,
    /// How long running handlers may go on when the worker shuts down.
    pub(crate) shutdown_grace: Duration,
    /// How long a handler that was cancelled may take to wind up.
    pub(crate) cancel_grace: Duration,
    /// How long a claim waits for work, if somebody said so.
    pub(crate) block: Option<Duration>,
    /// How many ended runs of each workflow are kept at most, and how young one is that is kept all the same.
    pub(crate) ended_runs: PruneRunsParams,
    /// Whether it keeps out of the fleet.
    pub(crate) anonymous: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(25),
            cancel_grace: Duration::from_secs(5),
            block: None,
            ended_runs: PruneRunsParams { max_kept: 10_000, min_age: Duration::from_secs(60 * 60) },
            anonymous: false,
        }
    }
}
