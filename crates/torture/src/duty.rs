//! What a worker process does: runs until its standard input ends, which is also what happens when whoever
//! started it dies. So no scenario, however it ends, leaves a worker behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tidemill::{Client, Event, Namespace, Report, Store, Worker};
use tokio::sync::{broadcast, oneshot};

use crate::act::{self, Desk};
use crate::fate::{Doom, Fate};
use crate::ledger::{Ledger, Step};
use crate::watched::Watched;
use crate::{program, purchase, transfer};

/// How often a worker notes how many commands it has sent.
const COUNT: Duration = Duration::from_millis(200);

/// What a worker process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Duty {
    /// Its store.
    pub store: String,
    /// Its namespace there, if it has one.
    pub namespace: Option<String>,
    /// What wakes it, if not the store itself.
    pub wake: Option<String>,
    /// Whether it runs transfers, which keep books, beside everything else.
    pub transfers: bool,
    /// Whether it runs random workflows beside everything else.
    pub programs: bool,
    /// Whether it runs the order example beside everything else.
    pub orders: bool,
    /// Its ledger.
    pub ledger: PathBuf,
    /// How long its leases last.
    pub lease_ms: u64,
    /// How many jobs it runs at once, of each queue.
    pub concurrency: usize,
    /// Jobs do not go on here before this file is there.
    pub gate: Option<PathBuf>,
    /// What befalls it.
    pub fate: Option<Fate>,
}

/// What a worker process says at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Jobs that ended well.
    pub done: u64,
    /// Jobs that went to the dead letters.
    pub dead: u64,
    /// Leases that were lost.
    pub lost: u64,
    /// Ended jobs that could not be settled.
    pub unsettled: u64,
}

impl From<&Report> for Account {
    fn from(report: &Report) -> Self {
        let (total, left) = (&report.total, &report.unfinished);
        Self { done: total.done, dead: total.dead, lost: total.lost, unsettled: left.unsettled }
    }
}

impl Duty {
    /// Connects as the worker does.
    pub async fn connect(&self) -> Result<Client> {
        let connector = tidemill::connector(&self.store)?;
        let connector = match &self.wake {
            Some(wake) => connector.wake(wake.as_str())?,
            None => connector,
        };
        let connector = match &self.namespace {
            Some(namespace) => connector.namespace(Namespace::new(namespace)?),
            None => connector,
        };
        Ok(connector.connect().await?)
    }

    /// Works until standard input ends.
    pub async fn serve(self, ready: impl FnOnce()) -> Result<Account> {
        let client = self.connect().await.context("the worker cannot connect")?;
        let doom = Arc::new(Doom::new(self.fate, self.gate.clone()));
        let client = Client::new(Arc::new(Watched { inner: client.store().clone(), doom: doom.clone() }));
        let ledger = Arc::new(Ledger::open(&self.ledger)?);
        let worker = Worker::builder(&client)
            .state(Desk { ledger: ledger.clone(), gate: self.gate, doom: doom.clone() })
            .handle(act::act)
            .queue(act::QUEUE, self.concurrency)
            .at_most_once(act::ONCE, self.concurrency)
            .lease(Duration::from_millis(self.lease_ms))
            .shutdown_grace(Duration::from_secs(1));
        let worker = if self.transfers { transfer::handlers(worker, &self.store) } else { worker };
        let worker = if self.programs { program::handlers(worker) } else { worker };
        let worker = if self.orders { purchase::handlers(worker, &doom) } else { worker };
        let notes = tokio::spawn(note_settlements(worker.events(), ledger.clone()));
        let counts = tokio::spawn(note_commands(client.store().clone(), ledger));
        ready();
        let report = worker.run_until(end_of_input()).await?;
        counts.abort();
        notes.await?;
        Ok(Account::from(&report))
    }
}

/// Ends when the worker has: its events end with it.
async fn note_settlements(mut events: broadcast::Receiver<Event>, ledger: Arc<Ledger>) {
    while let Ok(event) = events.recv().await {
        // A ledger that cannot be written shows in what is missing from it.
        let _ = ledger.note(Step::Settled(event.outcome), &event.job, 0);
    }
}

async fn note_commands(store: Arc<dyn Store>, ledger: Arc<Ledger>) {
    loop {
        let _ = ledger.count(store.commands());
        tokio::time::sleep(COUNT).await;
    }
}

/// On a thread of its own, which nobody waits for: a read of standard input cannot be given up.
fn end_of_input() -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    end
}
