//! The main function of a worker process. It runs until its standard input ends, which also happens
//! when its parent dies. So a scenario never leaves a worker behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tidemill::store::Store;
use tidemill::{Client, Event, Namespace, Report, Worker};
use tokio::sync::{broadcast, oneshot};

use crate::job::{self, HandlerState};
use crate::kill_point_store::KillPointStore;
use crate::kill_points::{KillSwitch, PlannedSignal};
use crate::ledger::{Ledger, LedgerEvent};
use crate::{order_workflow, program, transfer};

/// Interval at which a worker records its number of commands.
const COMMAND_COUNT_INTERVAL: Duration = Duration::from_millis(200);

/// The parameters of a worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// URL of the store.
    pub store: String,
    /// Namespace of the store, if any.
    pub namespace: Option<String>,
    /// URL of the wake-up transport, if not the store's own.
    pub wake: Option<String>,
    /// Whether it also runs transfers, which write to the user's table.
    pub transfers: bool,
    /// Whether it also runs random workflows.
    pub programs: bool,
    /// Whether it also runs the order example.
    pub orders: bool,
    /// Path of the ledger.
    pub ledger: PathBuf,
    /// Lease of its jobs.
    pub lease_ms: u64,
    /// Concurrency of each queue.
    pub concurrency: usize,
    /// Handlers wait until this file exists.
    pub gate: Option<PathBuf>,
    /// The signal that it raises against itself.
    pub signal: Option<PlannedSignal>,
}

/// The report that a worker process prints at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Jobs that succeeded.
    pub done: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
    /// Leases that were lost.
    pub lost: u64,
    /// Ended jobs whose settlement failed.
    pub unsettled: u64,
}

impl From<&Report> for WorkerReport {
    fn from(report: &Report) -> Self {
        let (total, left) = (&report.total, &report.unfinished);
        Self { done: total.done, dead: total.dead, lost: total.lost, unsettled: left.unsettled }
    }
}

impl WorkerSpec {
    /// Connects like the worker.
    pub async fn connect(&self) -> Result<Client> {
        let connector = tidemill::ClientBuilder::new(&self.store);
        let connector = match &self.wake {
            Some(wake) => connector.wake(wake.as_str()),
            None => connector,
        };
        let connector = match &self.namespace {
            Some(namespace) => connector.namespace(Namespace::new(namespace)?),
            None => connector,
        };
        Ok(connector.connect().await?)
    }

    /// Runs the worker until standard input ends.
    pub async fn run(self, ready: impl FnOnce()) -> Result<WorkerReport> {
        let client = self.connect().await.context("the worker cannot connect")?;
        let kill_switch = Arc::new(KillSwitch::new(self.signal, self.gate.clone()));
        let client = Client::new(Arc::new(KillPointStore {
            inner: client.store().clone(),
            kill_switch: kill_switch.clone(),
        }));
        let ledger = Arc::new(Ledger::open(&self.ledger)?);
        let worker = Worker::builder(&client)
            .state(HandlerState { ledger: ledger.clone(), gate: self.gate, kill_switch: kill_switch.clone() })
            .handle(job::run_test_job)
            .queue(job::QUEUE, self.concurrency)
            .at_most_once(job::AT_MOST_ONCE_QUEUE, self.concurrency)
            .lease(Duration::from_millis(self.lease_ms))
            .shutdown_grace(Duration::from_secs(1));
        let worker = if self.transfers { transfer::handlers(worker, &self.store) } else { worker };
        let worker = if self.programs { program::handlers(worker) } else { worker };
        let worker = if self.orders { order_workflow::handlers(worker, &kill_switch) } else { worker };
        let notes = tokio::spawn(record_settlements(worker.events(), ledger.clone()));
        let counts = tokio::spawn(record_commands(client.store().clone(), ledger));
        ready();
        let report = worker.run_until(end_of_input()).await?;
        counts.abort();
        notes.await?;
        Ok(WorkerReport::from(&report))
    }
}

/// Records settlements. Ends with the worker, which closes the channel of events.
async fn record_settlements(mut events: broadcast::Receiver<Event>, ledger: Arc<Ledger>) {
    while let Ok(event) = events.recv().await {
        // A failed write shows up as a missing entry.
        let _ = ledger.record(LedgerEvent::Settled(event.outcome), &event.job, 0);
    }
}

async fn record_commands(store: Arc<dyn Store>, ledger: Arc<Ledger>) {
    loop {
        let _ = ledger.record_commands(store.commands());
        tokio::time::sleep(COMMAND_COUNT_INTERVAL).await;
    }
}

/// Completes at the end of standard input. Reads on a detached thread, because a blocking read
/// cannot be cancelled.
fn end_of_input() -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    end
}
