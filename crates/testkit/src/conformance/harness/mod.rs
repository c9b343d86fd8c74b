//! The harness of a case: a queue, a worker, and the calls that most cases begin with.

mod chain;
mod fleet;
mod inspect;
mod job_calls;
mod job_spec;
mod maintenance;
mod runs;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::name::{HolderId, Queue};
use tidemill_core::store::Store;

pub use chain::{chain, chain_after, chain_once, continue_with, next, output};
pub use fleet::{FleetHarness, chromium, kind, offer};
pub use job_spec::{JobSpec, dead, done, envelope, job, retry};
pub use runs::{
    ClaimedTask, activities, activity, answer, completed, completed_for, event, order, order_of, signal,
    timer,
};

/// A lease that does not expire during a case.
pub const LONG: Duration = Duration::from_secs(30);

/// A lease that expires soon.
pub const SHORT: Duration = Duration::from_millis(200);

/// How long a case waits for an expected event.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between two polls of a store.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls until `found` returns a value, for a limited time.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut found: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = found().await {
            return value;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "waited {WAIT_TIMEOUT:?} in vain for {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A queue and a worker on it.
#[derive(Clone)]
pub struct QueueHarness {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The queue.
    pub queue: Queue,
    /// The worker that claims.
    pub worker: HolderId,
    /// The length of its leases.
    pub lease: Duration,
}

impl QueueHarness {
    /// A harness on `queue`, with a worker of its own.
    pub fn new(store: Arc<dyn Store>, queue: Queue) -> Self {
        Self { store, queue, worker: HolderId::from_process("testkit", 1, 0), lease: LONG }
    }

    /// The same with another lease.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same queue over another connection, with another worker.
    pub fn with_store(&self, store: Arc<dyn Store>) -> Self {
        Self { store, worker: HolderId::from_process("elsewhere", 2, 0), ..self.clone() }
    }
}
