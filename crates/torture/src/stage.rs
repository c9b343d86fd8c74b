//! Where a scenario takes place: a store, a ledger, and the program that workers are started from.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tidemill::store::QueueInfo;
use tidemill::{Mill, Queue, QueueName};

use crate::act::{ONCE, QUEUE};
use crate::audit::Audit;
use crate::crew::Member;
use crate::duty::Duty;
use crate::place::{Kind, Place};
use crate::{ledger, leftovers};

/// Far longer than anything takes on a busy machine; what hangs must still end.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often to look at the ledger.
const GLANCE: Duration = Duration::from_millis(10);

/// A store, a ledger and a program.
pub struct Stage {
    /// A connection of the scenario's own.
    pub mill: Mill,
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
        let mill = tidemill::connect(&place.url()).await?;
        let folder = tempfile::Builder::new().prefix("tidemill-ledger-").tempdir()?;
        let (program, lease) = (program.to_owned(), Duration::from_secs(2));
        Ok(Self { mill, lease, program, folder, place })
    }

    /// The store.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What a worker is told, unless it is told otherwise.
    pub fn duty(&self, concurrency: usize) -> Duty {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        Duty { store: self.place.url(), ledger: self.path(), lease_ms, concurrency, hangs: false }
    }

    /// Starts a worker.
    pub fn hire(&self, duty: &Duty) -> Result<Member> {
        Member::start(&self.program, duty)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger")
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
        let queues = self.mill.store().queues().await?;
        let queue = queue()?;
        queues.into_iter().find(|info| info.queue == queue).context("the queue is not known")
    }

    /// Asserts that the store is empty to the last trace. What expires by itself may take a moment.
    pub async fn assert_nothing_is_left(&self) -> Result<()> {
        let queues = [queue()?, once()?];
        let begun = Instant::now();
        loop {
            self.mill.store().prune(&queues).await?;
            let left = leftovers::list(&self.place).await?;
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > self.lease * 3 {
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
