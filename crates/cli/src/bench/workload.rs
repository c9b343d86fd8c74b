//! The workload of the benchmarks: a no-op job in an envelope of about 300 bytes.

use serde::{Deserialize, Serialize};
use tidemill::baseline::Baseline;
use tidemill::workflow::RunError;
use tidemill::{
    BuildError, BulkError, Client, Error, Fail, Guarantee, Job, QueueName, Worker, WorkerBuilder, WorkerError,
};

/// Pads the envelope to about 300 bytes.
pub(super) const PADDING: &str =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123";

/// Concurrency of the worker: enough that the next claim is under way while a batch runs.
const WORKER_CONCURRENCY: usize = 1_024;

/// The no-op job.
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

/// The queue of the benchmark, with the guarantee of the raw loop.
pub(super) struct BenchQueue {
    pub(super) name: &'static str,
    pub(super) guarantee: Guarantee,
    pub(super) batch: usize,
}

impl BenchQueue {
    pub(super) fn new(baseline: &dyn Baseline) -> Self {
        Self { name: "tidemill-bench", guarantee: baseline.guarantee(), batch: baseline.batch().enqueue }
    }

    /// Removes the jobs of an earlier, interrupted benchmark.
    pub(super) async fn purge(&self, client: &Client) -> Result<(), BenchError> {
        let (name, guarantee) = (QueueName::new(self.name).map_err(Error::from)?, self.guarantee);
        client.queue(name.as_str()).guarantee(guarantee).purge().await?;
        Ok(())
    }

    /// A worker of this queue.
    pub(super) fn worker(&self, client: &Client) -> WorkerBuilder {
        self.serve_with(Worker::builder(client).handle(noop), WORKER_CONCURRENCY)
    }

    pub(super) fn serve_with(&self, worker: WorkerBuilder, concurrency: usize) -> WorkerBuilder {
        match self.guarantee {
            Guarantee::AtLeastOnce => worker.queue(self.name, concurrency),
            Guarantee::AtMostOnce => worker.at_most_once(self.name, concurrency),
        }
    }
}

/// The error of a measurement.
#[derive(Debug)]
pub(crate) enum BenchError {
    Store(Error),
    Worker(WorkerError),
    Run(Box<RunError>),
    /// Jobs were lost or duplicated, so the measurement is invalid.
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
