//! Ends a worker's parts in the one order that loses nothing:
//!
//! 1. nothing more is claimed, and what has not begun to run goes back;
//! 2. running handlers get the shutdown grace; what still runs then is cancelled and goes back, uncounted;
//! 3. everything that has ended is settled;
//! 4. the worker's traces are removed from the store;
//! 5. the heartbeat stops. Last, because until here it kept the leases of all of this. With it the worker leaves the
//!    fleet, where all the while it was seen to be draining.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::deadline::{CALL_TIMEOUT, with_timeout};
use crate::executor::Executor;
use crate::shared::WorkerShared;
use crate::stats::Unfinished;
use crate::worker::TaskGroup;

/// What a handler may take to be dropped, beyond the grace it was given.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// What producers may take to hand back what they have. They need that long only if the store is away, and
/// then what they still hold comes back when its lease runs out.
const HAND_BACK_TIMEOUT: Duration = Duration::from_secs(15);

/// The parts of a running worker, and how to end them.
pub(crate) struct WorkerTasks {
    shared: Arc<WorkerShared>,
    executor: Arc<Executor>,
    pub(crate) producers: TaskGroup,
    pub(crate) maintenance: TaskGroup,
    pub(crate) listener: TaskGroup,
    pub(crate) completer: TaskGroup,
    pub(crate) heartbeat: TaskGroup,
    pub(crate) registration: TaskGroup,
    pub(crate) extension_tasks: TaskGroup,
    /// Cancelled when the fleet orders the worker to go.
    pub(crate) drain_ordered: CancellationToken,
    pub(crate) stop_claiming: CancellationToken,
    pub(crate) stop_running: CancellationToken,
    pub(crate) stop_all: CancellationToken,
}

impl WorkerTasks {
    pub(crate) fn new(shared: Arc<WorkerShared>, executor: Arc<Executor>) -> Self {
        Self {
            shared,
            executor,
            producers: TaskGroup::new(),
            maintenance: TaskGroup::new(),
            listener: TaskGroup::new(),
            completer: TaskGroup::new(),
            heartbeat: TaskGroup::new(),
            registration: TaskGroup::new(),
            extension_tasks: TaskGroup::new(),
            drain_ordered: CancellationToken::new(),
            stop_claiming: CancellationToken::new(),
            stop_running: CancellationToken::new(),
            stop_all: CancellationToken::new(),
        }
    }

    /// Completes when a part ends although nobody told it to.
    pub(crate) async fn wait_for_unexpected_end(&mut self) -> String {
        let ended = tokio::select! {
            Some(shut_down) = self.producers.join_next() => shut_down,
            Some(shut_down) = self.maintenance.join_next() => shut_down,
            Some(shut_down) = self.listener.join_next() => shut_down,
            Some(shut_down) = self.completer.join_next() => shut_down,
            Some(shut_down) = self.heartbeat.join_next() => shut_down,
            Some(shut_down) = self.registration.join_next() => shut_down,
            Some(shut_down) = self.extension_tasks.join_next() => shut_down,
        };
        let part = ended.map_or_else(|error| format!("part ({error})"), ToOwned::to_owned);
        error!("the worker's {part} ended unexpectedly; the worker shuts down");
        part
    }

    /// Ends everything in order.
    pub(crate) async fn shut_down(mut self) -> Unfinished {
        self.finish_claiming().await;
        let abandoned = self.finish_running().await;
        let unsettled = self.finish_settling().await;
        self.leave().await;
        self.stop_all.cancel();
        join(&mut self.heartbeat).await;
        join(&mut self.registration).await;
        Unfinished { abandoned, unsettled }
    }

    async fn finish_claiming(&mut self) {
        self.stop_claiming.cancel();
        if timeout(HAND_BACK_TIMEOUT, join(&mut self.producers)).await.is_err() {
            self.producers.abort_all();
        }
        join(&mut self.maintenance).await;
    }

    /// Returns how many handlers did not end: they block their thread, and nobody can take that from them.
    async fn finish_running(&mut self) -> u64 {
        let (tasks, config) = (self.executor.tasks(), &self.shared.config);
        tasks.close();
        if timeout(config.shutdown_grace, tasks.wait()).await.is_err() {
            info!("{} handlers still run; they are cancelled and their jobs go back", tasks.len());
            self.shared.leases.stop_all();
            let _ = timeout(config.cancel_grace + DROP_TIMEOUT, tasks.wait()).await;
        }
        let abandoned = tasks.len() as u64;
        if abandoned > 0 {
            warn!("{abandoned} handlers do not stop; their leases will run out");
        }
        self.stop_running.cancel();
        join(&mut self.listener).await;
        if timeout(CALL_TIMEOUT, join(&mut self.extension_tasks)).await.is_err() {
            self.extension_tasks.abort_all();
        }
        abandoned
    }

    /// Returns how many jobs could not be settled in the time their leases last without a heartbeat.
    async fn finish_settling(&mut self) -> u64 {
        self.shared.settlement_queue.close();
        if timeout(self.shared.config.lease, join(&mut self.completer)).await.is_ok() {
            return 0;
        }
        self.completer.abort_all();
        let unsettled = self.shared.leases.len() as u64;
        error!("{unsettled} jobs could not be settled before the worker ended; they will run again");
        unsettled
    }

    async fn leave(&self) {
        let queues = self.shared.queues();
        let leave = self.shared.store.leave(&self.shared.worker, &queues);
        if let Err(error) = with_timeout(CALL_TIMEOUT.min(self.shared.config.lease), "leave", leave).await {
            warn!("the worker's traces stay in the store until they are pruned: {}", error.full_message());
        }
    }
}

impl Drop for WorkerTasks {
    /// A worker that is dropped instead of ended takes its handlers along: dropped parts end by themselves,
    /// handlers have to be told.
    fn drop(&mut self) {
        self.shared.settlement_queue.close();
        self.shared.leases.stop_all();
    }
}

async fn join(part: &mut TaskGroup) {
    while let Some(ended) = part.join_next().await {
        if let Err(error) = ended {
            error!("a part of the worker died: {error}");
        }
    }
}
