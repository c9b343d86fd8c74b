//! One kind of thing that an agent keeps ready: how to make it, how many, and how often that went wrong.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Backoff;
use tokio::time::Instant;
use tracing::{info, warn};

use super::plan::Wanted;
use super::recipe::Recipe;

/// Between two tries to start what does not start: soon at first, twice a minute in the end.
const PAUSE: Backoff = Backoff {
    base: Duration::from_millis(250),
    max: Duration::from_secs(30),
    jitter: Duration::from_millis(250),
};

/// Whoever dies this soon after its start may never have worked.
const INFANCY: Duration = Duration::from_secs(10);

/// One kind of thing that is kept ready.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) recipe: Arc<Recipe>,
    pub(super) wanted: Wanted,
    /// How many are on their way.
    pub(super) starting: usize,
    /// How many have died without being told to.
    pub(super) crashes: u64,
    /// How many failed in a row.
    failures: u32,
    /// When the next may be started.
    not_before: Option<Instant>,
}

impl Line {
    pub(super) fn new(recipe: Recipe, wanted: Wanted) -> Self {
        let recipe = Arc::new(recipe);
        Self { recipe, wanted, starting: 0, crashes: 0, failures: 0, not_before: None }
    }

    /// When the next may be started, if that is not now.
    pub(super) fn pause(&self) -> Option<Instant> {
        self.not_before.filter(|at| *at > Instant::now())
    }

    /// Whether the last one did not start, or did not live for long.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// One has started.
    pub(super) fn started(&mut self) {
        self.starting -= 1;
        if self.failures > 0 {
            info!("{} starts again", self.recipe.name());
        }
    }

    /// One did not start. Said once, however often it is tried.
    pub(super) fn not_started(&mut self, why: &str) {
        self.starting -= 1;
        if self.failures == 0 {
            warn!("{} does not start, trying again until it does: {why}", self.recipe.name());
        }
        self.failed();
    }

    /// One has died after this long.
    pub(super) fn crashed(&mut self, lived: Duration) {
        self.crashes += 1;
        if lived < INFANCY {
            self.failed();
        }
    }

    /// One has lived long enough to show that it works.
    pub(super) fn proven(&mut self) {
        (self.failures, self.not_before) = (0, None);
    }

    fn failed(&mut self) {
        self.not_before = Some(Instant::now() + PAUSE.delay(self.failures, fastrand::f64()));
        self.failures = self.failures.saturating_add(1);
    }
}

/// Whether one that has lived this long works.
pub(super) fn is_proven(lived: Duration) -> bool {
    lived >= INFANCY
}
