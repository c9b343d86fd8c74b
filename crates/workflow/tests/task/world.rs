//! A store in memory, with workers in the background.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::runs::RunInfo;
use tidemill_core::workflow::RunId;
use tidemill_core::{Client, Store};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_worker::{Report, Worker, WorkerBuilder, WorkerError};
use tidemill_workflow::{Activity, RunHandle, RunProgress, RunWorkflows, Signal, StartWorkflows, Workflow};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A test that waits longer than this has failed.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(60);

pub(crate) const DOUBLE: Activity<u64, u64> = Activity::new("double");
pub(crate) const GO: Signal<u64> = Signal::new("go");
pub(crate) const MAIN: Workflow<u64, u64> = Workflow::new("main");

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) async fn double(n: u64) -> Result<u64, std::convert::Infallible> {
    Ok(n * 2)
}

pub(crate) struct World {
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(SqliteOptions::memory()).await
    }

    pub(crate) async fn on(options: SqliteOptions) -> Self {
        Self { client: Client::new(Arc::new(SqliteStore::open(options).await.unwrap())) }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.client.store()
    }

    /// A worker with the activity `double`.
    pub(crate) fn worker(&self) -> WorkerBuilder {
        Worker::builder(&self.client).activity(&DOUBLE, double)
    }

    /// Starts a run of [`MAIN`] with 1.
    pub(crate) async fn start(&self) -> RunHandle<u64> {
        self.client.workflow(&MAIN, 1).start().await.unwrap()
    }

    pub(crate) async fn info(&self, run: &RunId) -> RunInfo {
        self.store().get_run(run).await.unwrap().unwrap()
    }
}

/// A worker in the background.
pub(crate) struct Background {
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    pub(crate) fn run(worker: WorkerBuilder) -> Self {
        let stop = CancellationToken::new();
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { stop, run }
    }

    pub(crate) async fn stop(self) -> Report {
        self.stop.cancel();
        patiently(self.run).await.unwrap().unwrap()
    }
}

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.unwrap_or_else(|_| panic!("it never happens"))
}

/// Polls until `look` returns a value.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    patiently(async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(ms(2)).await;
        }
    })
    .await
}

/// Waits until the run is blocked and returns the reason.
pub(crate) async fn blocked<O>(run: &RunHandle<O>) -> String {
    until(async || match run.diagnose().await.unwrap().progress {
        RunProgress::Blocked { reason, .. } => Some(reason),
        _ => None,
    })
    .await
}
