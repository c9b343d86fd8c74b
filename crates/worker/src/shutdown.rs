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

use crate::deadline::{ANSWER, within};
use crate::engine::Part;
use crate::executor::Executor;
use crate::station::Station;
use crate::stats::LeftBehind;

/// What a handler may take to be dropped, beyond the grace it was given.
const TO_DROP: Duration = Duration::from_secs(1);

/// What producers may take to hand back what they have. They need that long only if the store is away, and
/// then what they still hold comes back when its lease runs out.
const TO_HAND_BACK: Duration = Duration::from_secs(15);

/// The parts of a running worker, and how to end them.
pub(crate) struct Shutdown {
    station: Arc<Station>,
    executor: Arc<Executor>,
    pub(crate) producers: Part,
    pub(crate) maintenance: Part,
    pub(crate) listener: Part,
    pub(crate) completer: Part,
    pub(crate) heartbeat: Part,
    pub(crate) roster: Part,
    pub(crate) companions: Part,
    /// Cancelled when the fleet orders the worker to go.
    pub(crate) ordered: CancellationToken,
    pub(crate) end_of_claiming: CancellationToken,
    pub(crate) end_of_running: CancellationToken,
    pub(crate) end_of_all: CancellationToken,
}

impl Shutdown {
    pub(crate) fn new(station: Arc<Station>, executor: Arc<Executor>) -> Self {
        Self {
            station,
            executor,
            producers: Part::new(),
            maintenance: Part::new(),
            listener: Part::new(),
            completer: Part::new(),
            heartbeat: Part::new(),
            roster: Part::new(),
            companions: Part::new(),
            ordered: CancellationToken::new(),
            end_of_claiming: CancellationToken::new(),
            end_of_running: CancellationToken::new(),
            end_of_all: CancellationToken::new(),
        }
    }

    /// Completes when a part ends although nobody told it to.
    pub(crate) async fn any_end(&mut self) -> String {
        let ended = tokio::select! {
            Some(end) = self.producers.join_next() => end,
            Some(end) = self.maintenance.join_next() => end,
            Some(end) = self.listener.join_next() => end,
            Some(end) = self.completer.join_next() => end,
            Some(end) = self.heartbeat.join_next() => end,
            Some(end) = self.roster.join_next() => end,
            Some(end) = self.companions.join_next() => end,
        };
        let part = ended.map_or_else(|error| format!("part ({error})"), ToOwned::to_owned);
        error!("the worker's {part} ended unexpectedly; the worker shuts down");
        part
    }

    /// Ends everything in order.
    pub(crate) async fn end(mut self) -> LeftBehind {
        self.end_claiming().await;
        let abandoned = self.end_running().await;
        let unsettled = self.end_settling().await;
        self.leave().await;
        self.end_of_all.cancel();
        join(&mut self.heartbeat).await;
        join(&mut self.roster).await;
        LeftBehind { abandoned, unsettled }
    }

    async fn end_claiming(&mut self) {
        self.end_of_claiming.cancel();
        if timeout(TO_HAND_BACK, join(&mut self.producers)).await.is_err() {
            self.producers.abort_all();
        }
        join(&mut self.maintenance).await;
    }

    /// Returns how many handlers did not end: they block their thread, and nobody can take that from them.
    async fn end_running(&mut self) -> u64 {
        let (tasks, manner) = (self.executor.tasks(), &self.station.manner);
        tasks.close();
        if timeout(manner.shutdown_grace, tasks.wait()).await.is_err() {
            info!("{} handlers still run; they are cancelled and their jobs go back", tasks.len());
            self.station.leases.leave();
            let _ = timeout(manner.cancel_grace + TO_DROP, tasks.wait()).await;
        }
        let abandoned = tasks.len() as u64;
        if abandoned > 0 {
            warn!("{abandoned} handlers do not stop; their leases will run out");
        }
        self.end_of_running.cancel();
        join(&mut self.listener).await;
        if timeout(ANSWER, join(&mut self.companions)).await.is_err() {
            self.companions.abort_all();
        }
        abandoned
    }

    /// Returns how many jobs could not be settled in the time their leases last without a heartbeat.
    async fn end_settling(&mut self) -> u64 {
        self.station.outbox.close();
        if timeout(self.station.manner.lease, join(&mut self.completer)).await.is_ok() {
            return 0;
        }
        self.completer.abort_all();
        let unsettled = self.station.leases.count() as u64;
        error!("{unsettled} jobs could not be settled before the worker ended; they will run again");
        unsettled
    }

    async fn leave(&self) {
        let queues = self.station.queues();
        let leave = self.station.store.leave(&self.station.worker, &queues);
        if let Err(error) = within(ANSWER.min(self.station.manner.lease), "leave", leave).await {
            warn!("the worker's traces stay in the store until they are pruned: {}", error.chain());
        }
    }
}

impl Drop for Shutdown {
    /// A worker that is dropped instead of ended takes its handlers along: dropped parts end by themselves,
    /// handlers have to be told.
    fn drop(&mut self) {
        self.station.outbox.close();
        self.station.leases.leave();
    }
}

async fn join(part: &mut Part) {
    while let Some(ended) = part.join_next().await {
        if let Err(error) = ended {
            error!("a part of the worker died: {error}");
        }
    }
}
