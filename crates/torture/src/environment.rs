//! The environment of a scenario: a store, a ledger, and the binary of the workers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tidemill::fleet::ListWorkersParams;
use tidemill::job::JobState;
use tidemill::store::{ListJobsParams, QueueInfo};
use tidemill::{Client, DeadLetter, Queue, QueueName};

use crate::audit::Audit;
use crate::job::{AT_MOST_ONCE_QUEUE, QUEUE};
use crate::test_store::{StoreKind, TestStore};
use crate::worker_main::WorkerSpec;
use crate::worker_process::WorkerProcess;
use crate::{ledger, leftovers};

/// Far longer than any step takes on a busy machine, so that a hang still fails.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Time until the data of a killed worker is gone: a blocked read counts as alive for its length
/// and one more lease.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of checks of the ledger.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A store, a ledger and the binary of the workers.
pub struct Environment {
    /// The scenario's own client.
    pub client: Client,
    /// The lease of the workers.
    pub lease: Duration,
    program: PathBuf,
    folder: TempDir,
    // Last field, so that it is dropped after every connection to it.
    store: TestStore,
}

impl Environment {
    /// Starts the store. `program` is this crate's own binary.
    pub async fn start(kind: StoreKind, program: &Path) -> Result<Self> {
        let store = TestStore::open(kind)?;
        let client = tidemill::connect(&store.url()).await?;
        let folder = tempfile::Builder::new().prefix("tidemill-ledger-").tempdir()?;
        let (program, lease) = (program.to_owned(), Duration::from_secs(2));
        Ok(Self { client, lease, program, folder, store })
    }

    /// The store.
    pub fn store(&self) -> &TestStore {
        &self.store
    }

    /// The default parameters of a worker.
    pub fn worker_spec(&self, concurrency: usize) -> WorkerSpec {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        WorkerSpec {
            store: self.store.url(),
            namespace: None,
            wake: None,
            transfers: false,
            programs: false,
            orders: false,
            ledger: self.path(),
            lease_ms,
            concurrency,
            gate: None,
            signal: None,
        }
    }

    /// The parameters of a worker whose jobs wait at the gate.
    pub fn gated_worker_spec(&self, concurrency: usize) -> WorkerSpec {
        WorkerSpec { gate: Some(self.gate()), ..self.worker_spec(concurrency) }
    }

    fn gate(&self) -> PathBuf {
        self.path_of("open")
    }

    /// Opens the gate.
    pub fn open_gate(&self) -> Result<()> {
        std::fs::write(self.gate(), "").context("cannot open the gate")
    }

    /// Closes the gate.
    pub fn close_gate(&self) -> Result<()> {
        if self.gate().exists() {
            std::fs::remove_file(self.gate()).context("cannot close the gate")
        } else {
            Ok(())
        }
    }

    /// Starts a worker.
    pub fn start_worker(&self, spec: &WorkerSpec) -> Result<WorkerProcess> {
        WorkerProcess::start(&self.program, spec)
    }

    /// The binary of the workers.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A path next to the ledger.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> PathBuf {
        self.path_of("ledger")
    }

    /// Reads the ledger.
    pub fn audit(&self) -> Result<Audit> {
        Ok(Audit::new(ledger::read(&self.path())?))
    }

    /// Waits until the ledger satisfies `wanted`.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Audit) -> bool) -> Result<Audit> {
        let started = Instant::now();
        loop {
            let audit = self.audit()?;
            if wanted(&audit) {
                return Ok(audit);
            }
            ensure!(started.elapsed() < TIMEOUT, "timed out waiting for {what}: {audit}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The counts of the at-least-once queue.
    pub async fn counts(&self) -> Result<QueueInfo> {
        let queues = self.client.store().list_queues().await?;
        let queue = queue()?;
        queues.into_iter().find(|info| info.queue == queue).context("the queue is not known")
    }

    /// Whether no job is left to run in either queue.
    pub async fn is_drained(&self) -> Result<bool> {
        let mut queues = match self.client.store().list_queues().await {
            Ok(queues) => queues.into_iter(),
            // The store may be unavailable, so this is unknown.
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok(queues.all(|info| info.ready + info.scheduled + info.running == 0))
    }

    /// Waits until no job is left to run.
    pub async fn wait_until_drained(&self) -> Result<()> {
        let started = Instant::now();
        while !self.is_drained().await? {
            ensure!(
                started.elapsed() < TIMEOUT,
                "not drained: {:?}, {}",
                self.counts().await?,
                self.audit()?
            );
            tokio::time::sleep(POLL_INTERVAL).await;
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

    /// Removes killed workers from the fleet: they expire later than a scenario can wait.
    async fn remove_workers(&self) -> Result<()> {
        let fleet = self.client.store();
        let members =
            fleet.list_workers(ListWorkersParams { kind: None, cursor: None, limit: 1000 }).await?.items;
        let dead: Vec<_> = members.into_iter().map(|info| info.worker.id).collect();
        Ok(fleet.part(&dead).await?)
    }

    /// Asserts that the store is empty. Data that expires by itself may take a moment.
    pub async fn assert_empty(&self) -> Result<()> {
        let queues = [queue()?, at_most_once_queue()?];
        let started = Instant::now();
        loop {
            self.client.store().prune(&queues).await?;
            self.remove_workers().await?;
            let left = leftovers::list(&self.store).await?;
            if left.is_empty() {
                return Ok(());
            }
            if started.elapsed() > CLEANUP_TIMEOUT {
                bail!("left behind: {}", left.join(", "));
            }
            tokio::time::sleep(POLL_INTERVAL * 10).await;
        }
    }
}

/// The at-least-once queue of the scenarios.
pub fn queue() -> Result<Queue> {
    Ok(Queue::at_least_once(QueueName::new(QUEUE)?))
}

/// The at-most-once queue of the scenarios.
pub fn at_most_once_queue() -> Result<Queue> {
    Ok(Queue::at_most_once(QueueName::new(AT_MOST_ONCE_QUEUE)?))
}
