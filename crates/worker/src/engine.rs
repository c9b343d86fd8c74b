//! A worker, built: starts its parts and waits for their end.

use std::future::Future;
use std::sync::Arc;

use tidemill_core::fleet::WorkerKey;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::build::WorkerError;
use crate::card::Card;
use crate::companion::Companion;
use crate::completer::Completer;
use crate::drain::{Drainer, Emptiness};
use crate::executor::Executor;
use crate::heartbeat::Heartbeat;
use crate::listener::Listener;
use crate::maintenance::{Promoter, Pruner, Reaper, Rescuer};
use crate::producer::Producer;
use crate::rechecks::Rechecks;
use crate::registry::Registry;
use crate::roster::{Calls, Roster};
use crate::shutdown::Shutdown;
use crate::station::Station;
use crate::stats::{Report, Stats};

/// A worker that is known to be sound, and may run.
#[must_use = "a worker does nothing before `.run_until(…).await` or `.drain().await`"]
pub struct Engine {
    station: Arc<Station>,
    executor: Arc<Executor>,
    stats: Stats,
    companions: Vec<Companion>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.station.worker)
    }
}

impl Engine {
    pub(crate) fn new(
        station: Station,
        registry: Registry,
        stats: Stats,
        companions: Vec<Companion>,
    ) -> Self {
        let station = Arc::new(station);
        let executor = Arc::new(Executor::new(station.clone(), registry));
        Self { station, executor, stats, companions }
    }

    /// Who this worker is to the store.
    pub fn id(&self) -> &tidemill_core::HolderId {
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

    /// Runs until `until` completes or the fleet orders this worker to go, then shuts down in order.
    pub async fn run_until<T>(mut self, until: impl Future<Output = T>) -> Result<Report, WorkerError> {
        info!(worker = %self.station.worker, queues = self.station.lanes.len(), "the worker runs");
        let mut parts = self.start();
        let ordered = parts.ordered.clone();
        let died = tokio::select! {
            _ = until => None,
            () = ordered.cancelled() => None,
            part = parts.any_end() => Some(part),
        };
        let left = parts.end().await;
        let (total, queues) = (self.stats.total(), self.stats.queues());
        let report = Report { total, queues, left, ordered: ordered.is_cancelled() };
        info!(worker = %self.station.worker, total = ?report.total, "the worker has ended");
        died.map_or(Ok(report), |part| Err(WorkerError::PartDied(part)))
    }

    /// Starts every part. The completer and the heartbeat come first, so that nothing is claimed before there
    /// is somebody to keep and settle it.
    fn start(&mut self) -> Shutdown {
        let mut parts = Shutdown::new(self.station.clone(), self.executor.clone());
        let (station, sooner, hurry) = (&self.station, Arc::new(Notify::new()), Arc::new(Notify::new()));
        let rechecks = Arc::<Rechecks>::default();
        let heartbeat = Heartbeat::new(station.clone(), hurry.clone(), rechecks.clone());
        parts.heartbeat.spawn(named("heartbeat", heartbeat.run(parts.end_of_all.clone())));
        parts.completer.spawn(named("completer", Completer::new(station.clone()).run()));
        for companion in self.companions.drain(..) {
            let (name, end) = (companion.name, parts.end_of_running.clone());
            parts.companions.spawn(named(name, companion.run(end)));
        }
        let (calls, member) = (Arc::<Calls>::default(), self.member());
        if let Some(member) = &member {
            self.start_roster(&mut parts, member.clone(), calls.clone());
        }
        let listener =
            Listener { station: station.clone(), sooner: sooner.clone(), hurry, rechecks, calls, member };
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

    /// Who this worker is to the fleet, unless it keeps out of it.
    fn member(&self) -> Option<WorkerKey> {
        let is_known = !self.station.manner.anonymous;
        is_known.then(|| Roster::name(&self.station)).flatten()
    }

    fn start_roster(&self, parts: &mut Shutdown, member: WorkerKey, calls: Arc<Calls>) {
        let (kinds, any) = self.executor.kinds();
        let card = Card::new(kinds, any, self.station.store.clock().now());
        let draining = parts.end_of_claiming.clone();
        let roster = Roster::new(self.station.clone(), member, card, calls, draining);
        parts.ordered = roster.ordered();
        let reaper = Reaper::new(self.station.clone()).run(parts.end_of_claiming.clone());
        parts.maintenance.spawn(named("reaper", reaper));
        parts.roster.spawn(named("roster", roster.run(parts.end_of_all.clone())));
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
