//! The worker: starts its parts and waits until they have ended.

use std::future::Future;
use std::sync::Arc;

use tidemill_core::Client;
use tidemill_core::fleet::WorkerKey;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::builder::WorkerBuilder;
use crate::completer::Completer;
use crate::drain::{DrainMode, Drainer};
use crate::error::WorkerError;
use crate::executor::Executor;
use crate::extension::ExtensionTask;
use crate::handler::registry::Registry;
use crate::heartbeat::Heartbeat;
use crate::listener::Listener;
use crate::maintenance::{LeaseRescuer, Promoter, Pruner, Reaper};
use crate::producer::Producer;
use crate::rechecks::Rechecks;
use crate::registration::detail::WorkerDetail;
use crate::registration::{Registration, RegistrationWakes};
use crate::shared::WorkerShared;
use crate::shutdown::WorkerTasks;
use crate::stats::{Report, Stats};

/// A worker with a valid configuration, ready to run.
#[must_use = "a worker does nothing before `.run_until(…).await` or `.drain().await`"]
pub struct Worker {
    shared: Arc<WorkerShared>,
    executor: Arc<Executor>,
    stats: Stats,
    extension_tasks: Vec<ExtensionTask>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shared.worker)
    }
}

impl Worker {
    /// Returns a builder for a worker on the store of `client`.
    pub fn builder(client: &Client) -> WorkerBuilder {
        WorkerBuilder::new(client)
    }

    pub(crate) fn new(
        shared: WorkerShared,
        registry: Registry,
        stats: Stats,
        extension_tasks: Vec<ExtensionTask>,
    ) -> Self {
        let shared = Arc::new(shared);
        let executor = Arc::new(Executor::new(shared.clone(), registry));
        Self { shared, executor, stats, extension_tasks }
    }

    /// The id under which this worker holds leases.
    pub fn id(&self) -> &tidemill_core::HolderId {
        &self.shared.worker
    }

    /// A live view of this worker's counters.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Runs until no job of its queues is ready, running or due; see [`WorkerBuilder::drain`].
    ///
    /// # Errors
    /// Fails if a part of the worker ended unexpectedly.
    ///
    /// # Cancel safety
    /// Not cancel safe: see [`run_until`](Self::run_until).
    pub async fn drain(self) -> Result<Report, WorkerError> {
        let drainer = Drainer::new(self.shared.clone(), DrainMode::Due);
        self.run_until(drainer.wait()).await
    }

    /// Runs until its queues are empty; see [`WorkerBuilder::drain_scheduled`].
    ///
    /// # Errors
    /// Fails if a part of the worker ended unexpectedly.
    ///
    /// # Cancel safety
    /// Not cancel safe: see [`run_until`](Self::run_until).
    pub async fn drain_scheduled(self) -> Result<Report, WorkerError> {
        let wait_until_empty = self.wait_until_empty();
        self.run_until(wait_until_empty).await
    }

    /// Completes when its queues are empty, including scheduled jobs. For use with
    /// [`run_until`](Self::run_until), where other conditions may stop the worker first.
    pub fn wait_until_empty(&self) -> impl Future<Output = ()> + Send + use<> {
        Drainer::new(self.shared.clone(), DrainMode::Scheduled).wait()
    }

    /// Runs until `until` completes or the fleet orders this worker to drain, then shuts down in
    /// order.
    ///
    /// # Errors
    /// Fails if a part of the worker ended unexpectedly.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped worker does not shut down in order. Its handlers continue without a
    /// lease, and their jobs run again when their leases expire. Complete `until` instead.
    pub async fn run_until<T>(mut self, until: impl Future<Output = T>) -> Result<Report, WorkerError> {
        info!(worker = %self.shared.worker, queues = self.shared.queue_slots.len(), "the worker has started");
        let mut parts = self.start_parts();
        let drain_ordered = parts.drain_ordered.clone();
        let ended_part = tokio::select! {
            _ = until => None,
            () = drain_ordered.cancelled() => None,
            part = parts.wait_for_unexpected_end() => Some(part),
        };
        let unfinished = parts.shut_down().await;
        let (total, queues) = (self.stats.total(), self.stats.queues());
        let report = Report { total, queues, unfinished, stopped_by_fleet: drain_ordered.is_cancelled() };
        info!(worker = %self.shared.worker, total = ?report.total, "the worker has stopped");
        ended_part.map_or(Ok(report), |part| Err(WorkerError::PartEnded(part)))
    }

    /// Starts every part. The completer and the heartbeat start first, so that leases are extended
    /// and jobs settled from the first claim on.
    fn start_parts(&mut self) -> WorkerTasks {
        let mut parts = WorkerTasks::new(self.shared.clone(), self.executor.clone());
        let (shared, promote_now, extend_now) =
            (&self.shared, Arc::new(Notify::new()), Arc::new(Notify::new()));
        let rechecks = Arc::<Rechecks>::default();
        let heartbeat = Heartbeat::new(shared.clone(), extend_now.clone(), rechecks.clone());
        parts.heartbeat.spawn(with_name("heartbeat", heartbeat.run(parts.stop_all.clone())));
        parts.completer.spawn(with_name("completer", Completer::new(shared.clone()).run()));
        for task in self.extension_tasks.drain(..) {
            let (name, shutdown) = (task.name, parts.stop_running.clone());
            parts.extension_tasks.spawn(with_name(name, task.run(shutdown)));
        }
        let (wakes, worker_key) = (Arc::<RegistrationWakes>::default(), self.worker_key());
        if let Some(worker_key) = &worker_key {
            self.start_registration(&mut parts, worker_key.clone(), wakes.clone());
        }
        let listener = Listener {
            shared: shared.clone(),
            promote_now: promote_now.clone(),
            extend_now,
            rechecks,
            registration: wakes,
            worker_key,
        };
        parts.listener.spawn(with_name("listener", listener.run(parts.stop_running.clone())));
        self.start_maintenance(&mut parts.maintenance, promote_now, &parts.stop_claiming);
        for index in 0..shared.queue_slots.len() {
            let (executor, shutdown) = (self.executor.clone(), parts.stop_claiming.clone());
            parts
                .producers
                .spawn(with_name("producer", Producer::new(index, shared.clone(), executor, shutdown).run()));
        }
        parts
    }

    /// The key of this worker in the fleet; `None` if it stays out of it.
    fn worker_key(&self) -> Option<WorkerKey> {
        let is_known = !self.shared.config.anonymous;
        is_known.then(|| Registration::worker_key(&self.shared)).flatten()
    }

    fn start_registration(
        &self,
        parts: &mut WorkerTasks,
        worker_key: WorkerKey,
        wakes: Arc<RegistrationWakes>,
    ) {
        let (kinds, any) = self.executor.kinds();
        let detail = WorkerDetail::new(kinds, any, self.shared.store.clock().now());
        let draining = parts.stop_claiming.clone();
        let registration = Registration::new(self.shared.clone(), worker_key, detail, wakes, draining);
        parts.drain_ordered = registration.drain_ordered();
        let reaper = Reaper::new(self.shared.clone()).run(parts.stop_claiming.clone());
        parts.maintenance.spawn(with_name("reaper", reaper));
        parts.registration.spawn(with_name("registration", registration.run(parts.stop_all.clone())));
    }

    fn start_maintenance(
        &self,
        parts: &mut TaskGroup,
        promote_now: Arc<Notify>,
        shut_down: &CancellationToken,
    ) {
        let shared = &self.shared;
        parts.spawn(with_name("promoter", Promoter::new(shared.clone(), promote_now).run(shut_down.clone())));
        parts.spawn(with_name("rescuer", LeaseRescuer::new(shared.clone()).run(shut_down.clone())));
        parts.spawn(with_name("pruner", Pruner::new(shared.clone()).run(shut_down.clone())));
    }
}

/// The tasks of one part. Dropping it aborts them.
pub(crate) type TaskGroup = JoinSet<&'static str>;

/// Runs a part; returns its name when it ends.
async fn with_name(name: &'static str, part: impl Future<Output = ()>) -> &'static str {
    part.await;
    name
}
