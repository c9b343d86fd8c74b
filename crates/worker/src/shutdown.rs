//! The tasks of a running worker, and their shutdown in the one order that loses nothing:
//!
//! 1. producers stop claiming and hand back jobs that have not started;
//! 2. running handlers get the shutdown grace; then they are cancelled and their jobs handed back
//!    without counting an attempt;
//! 3. the completer settles every job that has ended;
//! 4. the store removes the records of this worker;
//! 5. the heartbeat stops. It is last because it extends the leases of all these jobs until here.
//!    Then the registration leaves the fleet, which lists the worker as draining until that point.

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

/// How long a handler may take to be dropped, in addition to its grace.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// How long producers may take to hand back their jobs. They need this only while the store is
/// unavailable. Jobs that they still hold then run again after their leases have expired.
const HAND_BACK_TIMEOUT: Duration = Duration::from_secs(15);

/// The tasks of a running worker.
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
    /// Cancelled when the fleet orders the worker to drain.
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

    /// Completes when a part ends before its shutdown.
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

    /// Shuts down all parts in order.
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

    /// Returns the number of handlers that did not end. They block their thread, so they cannot be
    /// dropped.
    async fn finish_running(&mut self) -> u64 {
        let (tasks, config) = (self.executor.tasks(), &self.shared.config);
        tasks.close();
        if timeout(config.shutdown_grace, tasks.wait()).await.is_err() {
            info!("{} handlers are still running; cancelling them and handing their jobs back", tasks.len());
            self.shared.leases.stop_all();
            let _ = timeout(config.cancel_grace + DROP_TIMEOUT, tasks.wait()).await;
        }
        let abandoned = tasks.len() as u64;
        if abandoned > 0 {
            warn!("{abandoned} handlers did not stop; their leases will expire");
        }
        self.stop_running.cancel();
        join(&mut self.listener).await;
        if timeout(CALL_TIMEOUT, join(&mut self.extension_tasks)).await.is_err() {
            self.extension_tasks.abort_all();
        }
        abandoned
    }

    /// Returns the number of jobs that could not be settled within the length of a lease.
    async fn finish_settling(&mut self) -> u64 {
        self.shared.settlement_queue.close();
        if timeout(self.shared.config.lease, join(&mut self.completer)).await.is_ok() {
            return 0;
        }
        self.completer.abort_all();
        let unsettled = self.shared.leases.len() as u64;
        error!("{unsettled} jobs could not be settled before the worker stopped; they will run again");
        unsettled
    }

    async fn leave(&self) {
        let queues = self.shared.queues();
        let leave = self.shared.store.leave(&self.shared.worker, &queues);
        if let Err(error) = with_timeout(CALL_TIMEOUT.min(self.shared.config.lease), "leave", leave).await {
            warn!("the worker's records stay in the store until they are pruned: {}", error.full_message());
        }
    }
}

impl Drop for WorkerTasks {
    /// Stops the handlers of a worker that is dropped while it runs. Its parts are aborted with
    /// their task groups, but handlers need an explicit stop.
    fn drop(&mut self) {
        self.shared.settlement_queue.close();
        self.shared.leases.stop_all();
    }
}

async fn join(part: &mut TaskGroup) {
    while let Some(ended) = part.join_next().await {
        if let Err(error) = ended {
            error!("a part of the worker failed: {error}");
        }
    }
}
