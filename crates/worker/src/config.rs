//! The settings of a worker.

use std::time::Duration;

use tidemill_core::store::runs::PruneRunsParams;

/// The settings that the builder's methods change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Length of the lease of a claimed job.
    pub(crate) lease: Duration,
    /// Time that running handlers get to end at shutdown.
    pub(crate) shutdown_grace: Duration,
    /// Time that a cancelled handler gets to clean up.
    pub(crate) cancel_grace: Duration,
    /// How long a claim waits for jobs; `None` for the default by number of queues.
    pub(crate) block: Option<Duration>,
    /// How many ended runs of each workflow are kept, and the age below which none is removed.
    pub(crate) ended_runs: PruneRunsParams,
    /// Whether the worker stays out of the fleet.
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
