//! Makes scheduled jobs ready when their time has come.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted};
use tidemill_core::{Error, Queue};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::deadline::{ANSWER, within};
use crate::station::Station;

/// How many jobs one trip moves, per queue.
const LIMIT: usize = 512;

/// With nothing in sight it looks this soon again, then less and less often.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A wake-up that was lost, or that a foreign program never sent, costs at most this much, however many queues there are.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Never more often than this, however many jobs come due one after the other.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Sleeps until the next job is due or somebody schedules one that is due sooner.
pub(crate) struct Promoter {
    station: Arc<Station>,
    queues: Vec<Queue>,
    sooner: Arc<Notify>,
    idle_pause: Duration,
}

impl Promoter {
    pub(crate) fn new(station: Arc<Station>, sooner: Arc<Notify>) -> Self {
        let queues = station.queues();
        Self { station, queues, sooner, idle_pause: FIRST_PAUSE }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.promote_for_ever()).await;
    }

    async fn promote_for_ever(&mut self) {
        let mut outage = self.station.outage("promoting scheduled jobs");
        loop {
            match self.promote().await {
                Ok(promoted) => {
                    outage.is_over();
                    self.rest(&promoted).await;
                }
                Err(error) => tokio::time::sleep(outage.failed(&error)).await,
            }
        }
    }

    async fn promote(&self) -> Result<Promoted, Error> {
        let promote = PromoteParams { queues: &self.queues, limit: LIMIT };
        within(ANSWER, "promote", self.station.store.promote(promote)).await
    }

    async fn rest(&mut self, promoted: &Promoted) {
        let pause = self.pause(promoted);
        let due = self.station.store.clock().sleep(pause);
        tokio::time::sleep(SHORTEST_PAUSE).await;
        tokio::select! {
            () = due => {}
            () = self.sooner.notified() => {}
        }
    }

    fn pause(&mut self, promoted: &Promoted) -> Duration {
        if promoted.moved > 0 || promoted.next.is_some() {
            self.idle_pause = FIRST_PAUSE;
        } else {
            self.idle_pause = (self.idle_pause * 2).min(LONGEST_PAUSE);
        }
        promoted.next.map_or(self.idle_pause, |next| next.min(LONGEST_PAUSE))
    }
}
