//! Finds out when a worker's queues have nothing left to do.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::{PromoteParams, QueueInfo};

use crate::deadline::{ANSWER, within};
use crate::station::Station;

/// How soon to look again while this worker is busy: that costs the store nothing.
const BUSY_HERE: Duration = Duration::from_millis(5);

/// How soon to look again while only others are busy, at first and at the longest.
const BUSY_ELSEWHERE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];

/// How empty is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptiness {
    /// Nothing is ready, running or due.
    Now,
    /// Nothing is scheduled either.
    ForGood,
}

/// Watches the queues of one worker.
pub(crate) struct Drainer {
    station: Arc<Station>,
    emptiness: Emptiness,
}

impl Drainer {
    pub(crate) fn new(station: Arc<Station>, emptiness: Emptiness) -> Self {
        Self { station, emptiness }
    }

    /// Completes when the queues are empty. Looked at twice, with nothing in this worker's hands in between:
    /// a store with shards does not count them all in one moment.
    pub(crate) async fn drained(self) {
        let mut outage = self.station.outage("looking whether the queues are empty");
        let (mut pause, mut empty_looks) = (BUSY_ELSEWHERE[0], 0);
        // A queue that only other programs fill must be known before it can be seen to be full.
        let queues = self.station.queues();
        while let Err(error) = within(ANSWER, "make_known", self.station.store.register(&queues)).await {
            tokio::time::sleep(outage.failed(&error)).await;
        }
        while empty_looks < 2 {
            if self.is_busy_here() {
                (pause, empty_looks) = (BUSY_ELSEWHERE[0], 0);
                tokio::time::sleep(BUSY_HERE).await;
                continue;
            }
            match self.is_empty().await {
                Ok(true) => {
                    empty_looks += 1;
                    if empty_looks < 2 {
                        self.end_claims().await;
                    }
                }
                Ok(false) => {
                    empty_looks = 0;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BUSY_ELSEWHERE[1]);
                }
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
            }
        }
    }

    /// A claim may have taken jobs that its answer is still bringing, and not every store counts those.
    async fn end_claims(&self) {
        let claims = self.station.lanes.iter().map(|lane| lane.claims.interrupt());
        futures_util::future::join_all(claims).await;
    }

    fn is_busy_here(&self) -> bool {
        self.station.leases.count() > 0 || self.station.outbox.waiting() > 0
    }

    async fn is_empty(&self) -> Result<bool, Error> {
        if self.emptiness == Emptiness::Now && self.promotes_some().await? {
            return Ok(false);
        }
        let infos = within(ANSWER, "queues", self.station.store.list_queues()).await?;
        let mine = infos.iter().filter(|info| self.station.lanes.iter().any(|lane| lane.queue == info.queue));
        Ok(mine.map(|info| self.left(info)).sum::<u64>() == 0 && !self.is_busy_here())
    }

    /// Whether jobs are due; if so they are ready now.
    async fn promotes_some(&self) -> Result<bool, Error> {
        let queues = self.station.queues();
        let promote = PromoteParams { queues: &queues, limit: 512 };
        let promoted = within(ANSWER, "promote", self.station.store.promote(promote)).await?;
        Ok(promoted.moved > 0 || promoted.next == Some(Duration::ZERO))
    }

    /// How many jobs of a queue are to be waited for. Those of a paused queue might wait for ever.
    fn left(&self, info: &QueueInfo) -> u64 {
        let scheduled = if self.emptiness == Emptiness::ForGood { info.scheduled } else { 0 };
        // What cannot be counted may be there.
        let uncounted = u64::from(!info.problems.is_empty());
        info.running + if info.paused { 0 } else { info.ready + scheduled + uncounted }
    }
}
