//! What is measured: a job that does nothing, in an envelope of about 300 bytes.

use serde::{Deserialize, Serialize};
use tidemill::baseline::Baseline;
use tidemill::workflow::RunError;
use tidemill::{
    BuildError, BulkError, Client, Error, Fail, Guarantee, Job, QueueName, Worker, WorkerBuilder, WorkerError,
};

/// Fills the envelope up to about 300 bytes.
pub(super) const PADDING: &str =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123";

/// Jobs that run at once: enough that the next claim is under way while a batch runs.
const CONCURRENCY: usize = 1_024;

/// The job that does nothing.
#[derive(Serialize, Deserialize)]
pub(super) struct Noop {
    pub(super) n: u64,
    pub(super) padding: String,
}

impl Job for Noop {
    const KIND: &'static str = "noop";
    type Output = ();
}

impl Noop {
    pub(super) fn new(n: usize) -> Self {
        Self { n: n as u64, padding: PADDING.to_owned() }
    }
}

async fn noop(job: Noop) -> Result<(), Fail> {
    std::hint::black_box(job.n);
    Ok(())
}

/// Where it runs: a queue of its own with the guarantee of the raw loop.
pub(super) struct Queue {
    pub(super) name: &'static str,
    pub(super) delivery: Guarantee,
    pub(super) batch: usize,
}

impl Queue {
    pub(super) fn new(floor: &dyn Baseline) -> Self {
        Self { name: "tidemill-bench", delivery: floor.guarantee(), batch: floor.batch().enqueue }
    }

    /// Removes what an earlier, interrupted run has left.
    pub(super) async fn purge(&self, client: &Client) -> Result<(), BenchError> {
        let (name, delivery) = (QueueName::new(self.name).map_err(Error::from)?, self.delivery);
        client.store().purge(&tidemill::Queue { name, guarantee: delivery }).await?;
        Ok(())
    }

    /// A worker of this queue.
    pub(super) fn worker(&self, client: &Client) -> WorkerBuilder {
        self.join(Worker::builder(client).handle(noop), CONCURRENCY)
    }

    pub(super) fn join(&self, worker: WorkerBuilder, concurrency: usize) -> WorkerBuilder {
        match self.delivery {
            Guarantee::AtLeastOnce => worker.queue(self.name, concurrency),
            Guarantee::AtMostOnce => worker.at_most_once(self.name, concurrency),
        }
    }
}

/// Why a measurement failed.
#[derive(Debug)]
pub(crate) enum BenchError {
    Store(Error),
    Worker(WorkerError),
    Run(Box<RunError>),
    /// Jobs were lost or doubled: whatever was measured is worth nothing.
    Miscount {
        expected: usize,
        seen: u64,
    },
}

impl std::fmt::Display for BenchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Worker(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::Miscount { expected, seen } => write!(f, "{seen} of {expected} jobs were seen"),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Worker(error) => error.source(),
            Self::Run(error) => error.source(),
            Self::Miscount { .. } => None,
        }
    }
}

impl From<Error> for BenchError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<BulkError> for BenchError {
    fn from(error: BulkError) -> Self {
        Self::Store(error.into())
    }
}

impl From<WorkerError> for BenchError {
    fn from(error: WorkerError) -> Self {
        Self::Worker(error)
    }
}

impl From<BuildError> for BenchError {
    fn from(error: BuildError) -> Self {
        Self::Worker(error.into())
    }
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> Self {
        Self::Run(Box::new(error))
    }
}
