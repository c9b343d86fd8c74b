//! The test job of all scenarios: its payload selects what it does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, Fail, Job, JobContext, State};

use crate::kill_points::KillSwitch;
use crate::ledger::{Ledger, LedgerEvent};

/// The at-least-once queue of all scenarios.
pub const QUEUE: &str = "torture";

/// The at-most-once queue of all scenarios.
pub const AT_MOST_ONCE_QUEUE: &str = "torture.once";

/// Interval at which a waiting job checks its gate.
const GATE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A job whose payload selects its behaviour.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TestJob {
    /// What it does.
    pub behaviour: Behaviour,
    /// How long it sleeps first.
    pub sleep_ms: u64,
}

/// The behaviour of a test job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Succeeds.
    Finish,
    /// Fails this many times, then succeeds.
    Fail(u32),
    /// Fails permanently and becomes a dead letter.
    Die,
    /// Aborts its worker process.
    Abort,
}

impl TestJob {
    /// A job that succeeds at once.
    pub const FINISH: Self = Self { behaviour: Behaviour::Finish, sleep_ms: 0 };

    /// A job that aborts its worker.
    pub const ABORT: Self = Self { behaviour: Behaviour::Abort, sleep_ms: 0 };

    /// A job that succeeds after a while.
    pub fn finish_after(sleep: Duration) -> Self {
        Self { behaviour: Behaviour::Finish, sleep_ms: u64::try_from(sleep.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Job for TestJob {
    const KIND: &'static str = "test_job";
    const QUEUE: &'static str = QUEUE;
    const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(50));
    type Output = ();
}

/// State of the handlers.
#[derive(Debug, Clone)]
pub struct HandlerState {
    /// The ledger that handlers write to.
    pub ledger: Arc<Ledger>,
    /// Handlers wait until this file exists.
    pub gate: Option<PathBuf>,
    /// The planned signal of this worker.
    pub kill_switch: Arc<KillSwitch>,
}

/// The handler: does what the payload selects.
pub async fn run_test_job(
    job: TestJob,
    State(state): State<HandlerState>,
    cx: JobContext,
) -> Result<(), Fail> {
    state.ledger.record(LedgerEvent::Started, cx.id(), cx.attempt())?;
    while state.gate.as_ref().is_some_and(|gate| !gate.exists()) {
        tokio::time::sleep(GATE_POLL_INTERVAL).await;
    }
    tokio::time::sleep(Duration::from_millis(job.sleep_ms)).await;
    match job.behaviour {
        Behaviour::Abort => std::process::abort(),
        Behaviour::Die => return Err(Fail::dead("asked_to", "as requested")),
        Behaviour::Fail(times) if cx.attempt() <= times => return Err(Fail::retry("as requested")),
        Behaviour::Finish | Behaviour::Fail(_) => {}
    }
    state.ledger.record(LedgerEvent::Ended, cx.id(), cx.attempt())?;
    Ok(())
}
