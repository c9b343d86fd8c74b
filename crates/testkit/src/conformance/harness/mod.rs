//! The stage of a case: a queue, a worker, and the moves that most cases begin with.

mod act;
mod chain;
mod fleet;
mod jobs;
mod look;
mod runs;
mod tend;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::name::{HolderId, Queue};
use tidemill_core::store::Store;

pub use chain::{chain, chain_after, chain_once, go_on, next, output};
pub use fleet::{Yard, chromium, kind, offer};
pub use jobs::{Traits, dead, done, envelope, job, retry};
pub use runs::{
    Task, activities, activity, answer, completed, completed_for, event, order, order_of, signal, timer,
};

/// A lease that does not run out while a case lasts.
pub const LONG: Duration = Duration::from_secs(30);

/// A lease that runs out soon.
pub const SHORT: Duration = Duration::from_millis(200);

/// How long a case waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long between two looks at a store.
const GLANCE: Duration = Duration::from_millis(10);

/// Looks until `found` is something, for a bounded time.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut found: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = found().await {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        tokio::time::sleep(GLANCE).await;
    }
}

/// A queue and a worker on it.
#[derive(Clone)]
pub struct Scene {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Where everything happens.
    pub queue: Queue,
    /// Who claims.
    pub worker: HolderId,
    /// For how long.
    pub lease: Duration,
}

impl Scene {
    /// A stage on `queue`, with a worker of its own.
    pub fn new(store: Arc<dyn Store>, queue: Queue) -> Self {
        Self { store, queue, worker: HolderId::from_process("testkit", 1, 0), lease: LONG }
    }

    /// The same with another lease.
    pub fn leasing(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same queue over another connection, with another worker.
    pub fn through(&self, store: Arc<dyn Store>) -> Self {
        Self { store, worker: HolderId::from_process("elsewhere", 2, 0), ..self.clone() }
    }
}
