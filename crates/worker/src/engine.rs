//! A worker, built: starts its parts and waits for their end.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::build::WorkerError;
use crate::completer::Completer;
use crate::drain::{Drainer, Emptiness};
use crate::executor::Executor;
use crate::heartbeat::Heartbeat;
use crate::listener::Listener;
use crate::maintenance::{Promoter, Pruner, Rescuer};
use crate::producer::Producer;
use crate::registry::Registry;
use crate::shutdown::Shutdown;
use crate::station::Station;
use crate::stats::{Report, Stats};

/// A worker that is known to be sound, and may run.
#[must_use = "a worker does nothing before `.run_until(…).await` or `.drain().await`"]
pub struct Engine {
    station: Arc<Station>,
    executor: Arc<Executor>,
    stats: Stats,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.station.worker)
    }
}

impl Engine {
    pub(crate) fn new(station: Station, registry: Registry, stats: Stats) -> Self {
        let station = Arc::new(station);
        let executor = Arc::new(Executor::new(station.clone(), registry));
        Self { station, executor, stats }
    }

    /// Who this worker is to the store.
    pub fn id(&self) -> &tidemill_core::WorkerId {
        &self.station.worker
    }

    /// A live view of this worker's counters.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Runs until its queues have nothing to do right now; see [`Worker::drain`](crate::Worker::drain).
    pub async fn drain(self) -> Result<Report, WorkerError> {
        let drainer = Drainer::new(self.station.clone(), Emptiness::Now);
        self.run_until(drainer.drained()).await
    }

    /// Runs until its queues are empty; see [`Worker::drain_scheduled`](crate::Worker::drain_scheduled).
    pub async fn drain_scheduled(self) -> Result<Report, WorkerError> {
        let emptied = self.emptied();
        self.run_until(emptied).await
    }

    /// Completes when its queues are empty, scheduled jobs included: for [`run_until`](Self::run_until), where
    /// something else may end the worker first.
    pub fn emptied(&self) -> impl Future<Output = ()> + Send + use<> {
        Drainer::new(self.station.clone(), Emptiness::ForGood).drained()
    }

    /// Runs until `until` completes, then shuts down in order.
    pub async fn run_until<T>(self, until: impl Future<Output = T>) -> Result<Report, WorkerError> {
        info!(worker = %self.station.worker, queues = self.station.lanes.len(), "the worker runs");
        let mut parts = self.start();
        let died = tokio::select! {
            _ = until => None,
            part = parts.any_end() => Some(part),
        };
        let left = parts.end().await;
        let report = Report { total: self.stats.total(), queues: self.stats.queues(), left };
        info!(worker = %self.station.worker, total = ?report.total, "the worker has ended");
        died.map_or(Ok(report), |part| Err(WorkerError::PartDied(part)))
    }

    /// Starts every part. The completer and the heartbeat come first, so that nothing is claimed before there
    /// is somebody to keep and settle it.
    fn start(&self) -> Shutdown {
        let mut parts = Shutdown::new(self.station.clone(), self.executor.clone());
        let (station, sooner, hurry) = (&self.station, Arc::new(Notify::new()), Arc::new(Notify::new()));
        let heartbeat = Heartbeat::new(station.clone(), hurry.clone());
        parts.heartbeat.spawn(named("heartbeat", heartbeat.run(parts.end_of_all.clone())));
        parts.completer.spawn(named("completer", Completer::new(station.clone()).run()));
        let listener = Listener { station: station.clone(), sooner: sooner.clone(), hurry };
        parts.listener.spawn(named("listener", listener.run(parts.end_of_running.clone())));
        self.start_maintenance(&mut parts.maintenance, sooner, &parts.end_of_claiming);
        for index in 0..station.lanes.len() {
            let (executor, end) = (self.executor.clone(), parts.end_of_claiming.clone());
            parts
                .producers
                .spawn(named("producer", Producer::new(index, station.clone(), executor, end).run()));
        }
        parts
    }

    fn start_maintenance(&self, parts: &mut Part, sooner: Arc<Notify>, end: &CancellationToken) {
        let station = &self.station;
        parts.spawn(named("promoter", Promoter::new(station.clone(), sooner).run(end.clone())));
        parts.spawn(named("rescuer", Rescuer::new(station.clone()).run(end.clone())));
        parts.spawn(named("pruner", Pruner::new(station.clone()).run(end.clone())));
    }
}

/// Tasks of one role. Dropping it ends them.
pub(crate) type Part = JoinSet<&'static str>;

/// A part that says its name when it ends.
async fn named(name: &'static str, part: impl Future<Output = ()>) -> &'static str {
    part.await;
    name
}
