//! Where a scenario takes place: a store, a ledger, and the program that workers are started from.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tidemill::fleet::ListWorkersParams;
use tidemill::job::JobState;
use tidemill::store::{ListJobsParams, QueueInfo};
use tidemill::{Client, DeadLetter, Queue, QueueName};

use crate::act::{ONCE, QUEUE};
use crate::audit::Audit;
use crate::crew::Member;
use crate::duty::Duty;
use crate::place::{Kind, Place};
use crate::{ledger, leftovers};

/// Far longer than anything takes on a busy machine; what hangs must still end.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How long the traces of a killed worker may stay: a read that it had blocked counts as its own for the length of the
/// read and a lease more.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// How often to look at the ledger.
const GLANCE: Duration = Duration::from_millis(10);

/// A store, a ledger and a program.
pub struct Stage {
    /// A connection of the scenario's own.
    pub client: Client,
    /// The lease that workers are told to take.
    pub lease: Duration,
    program: PathBuf,
    folder: TempDir,
    // Last, so that it outlives every connection to it.
    place: Place,
}

impl Stage {
    /// Starts the store. Workers are started from `program`, this crate's own.
    pub async fn set(kind: Kind, program: &Path) -> Result<Self> {
        let place = Place::open(kind)?;
        let client = tidemill::connect(&place.url()).await?;
        let folder = tempfile::Builder::new().prefix("tidemill-ledger-").tempdir()?;
        let (program, lease) = (program.to_owned(), Duration::from_secs(2));
        Ok(Self { client, lease, program, folder, place })
    }

    /// The store.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What a worker is told, unless it is told otherwise.
    pub fn duty(&self, concurrency: usize) -> Duty {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        Duty {
            store: self.place.url(),
            namespace: None,
            wake: None,
            transfers: false,
            programs: false,
            orders: false,
            ledger: self.path(),
            lease_ms,
            concurrency,
            gate: None,
            fate: None,
        }
    }

    /// The same, but its jobs stand before a gate.
    pub fn gated_duty(&self, concurrency: usize) -> Duty {
        Duty { gate: Some(self.gate()), ..self.duty(concurrency) }
    }

    fn gate(&self) -> PathBuf {
        self.beside("open")
    }

    /// Lets the jobs behind the gate go on.
    pub fn open_gate(&self) -> Result<()> {
        std::fs::write(self.gate(), "").context("cannot open the gate")
    }

    /// Closes the gate again.
    pub fn close_gate(&self) -> Result<()> {
        if self.gate().exists() {
            std::fs::remove_file(self.gate()).context("cannot close the gate")
        } else {
            Ok(())
        }
    }

    /// Starts a worker.
    pub fn hire(&self, duty: &Duty) -> Result<Member> {
        Member::start(&self.program, duty)
    }

    /// What workers are started from.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A file beside the ledger.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> PathBuf {
        self.beside("ledger")
    }

    /// What the ledger says now.
    pub fn audit(&self) -> Result<Audit> {
        Ok(Audit::of(ledger::read(&self.path())?))
    }

    /// Waits until the ledger is as `wanted`.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Audit) -> bool) -> Result<Audit> {
        let begun = Instant::now();
        loop {
            let audit = self.audit()?;
            if wanted(&audit) {
                return Ok(audit);
            }
            ensure!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {audit}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// The counts of the at-least-once queue.
    pub async fn counts(&self) -> Result<QueueInfo> {
        let queues = self.client.store().list_queues().await?;
        let queue = queue()?;
        queues.into_iter().find(|info| info.queue == queue).context("the queue is not known")
    }

    /// Whether nothing is left to run, in either queue.
    pub async fn is_drained(&self) -> Result<bool> {
        let mut queues = match self.client.store().list_queues().await {
            Ok(queues) => queues.into_iter(),
            // It may be away; then we do not know.
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok(queues.all(|info| info.ready + info.scheduled + info.running == 0))
    }

    /// Waits until nothing is left to run.
    pub async fn until_drained(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.is_drained().await? {
            ensure!(begun.elapsed() < PATIENCE, "not drained: {:?}, {}", self.counts().await?, self.audit()?);
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// The dead letters of the at-least-once queue.
    pub async fn letters(&self) -> Result<Vec<DeadLetter>> {
        let (queue, mut letters, mut cursor) = (queue()?, Vec::new(), None);
        loop {
            let list = ListJobsParams { queue: &queue, state: JobState::Dead, cursor, limit: 256 };
            let page = self.client.store().list_jobs(list).await?;
            for info in page.items {
                letters.push(DeadLetter::read(info.data)?);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(letters);
            }
        }
    }

    /// Takes workers that were killed out of the fleet: they are taken for dead later than a scenario can wait.
    async fn bury(&self) -> Result<()> {
        let fleet = self.client.store().fleet();
        let members =
            fleet.list_workers(ListWorkersParams { kind: None, cursor: None, limit: 1000 }).await?.items;
        let dead: Vec<_> = members.into_iter().map(|info| info.worker.id).collect();
        Ok(fleet.part(&dead).await?)
    }

    /// Asserts that the store is empty to the last trace. What expires by itself may take a moment.
    pub async fn assert_nothing_is_left(&self) -> Result<()> {
        let queues = [queue()?, once()?];
        let begun = Instant::now();
        loop {
            self.client.store().prune(&queues).await?;
            self.bury().await?;
            let left = leftovers::list(&self.place).await?;
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > FORGOTTEN {
                bail!("left behind: {}", left.join(", "));
            }
            tokio::time::sleep(GLANCE * 10).await;
        }
    }
}

/// The at-least-once queue that scenarios use.
pub fn queue() -> Result<Queue> {
    Ok(Queue::at_least_once(QueueName::new(QUEUE)?))
}

/// The at-most-once queue that scenarios use.
pub fn once() -> Result<Queue> {
    Ok(Queue::at_most_once(QueueName::new(ONCE)?))
}
