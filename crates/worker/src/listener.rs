//! Receives wake-ups and passes each to the part it concerns. A wake-up changes no job: it makes a part ask the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::wake::Wake;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::rechecks::Rechecks;
use crate::roster::Calls;
use crate::station::Station;

/// A stream of wake-ups never ends; should one end anyway, it is opened again, but not in a hot loop.
const REOPEN: Duration = Duration::from_secs(1);

/// Passes wake-ups on to whom they concern.
pub(crate) struct Listener {
    pub(crate) station: Arc<Station>,
    /// Wakes the promoter.
    pub(crate) sooner: Arc<Notify>,
    /// Wakes the heartbeat, which learns what was cancelled.
    pub(crate) hurry: Arc<Notify>,
    /// Makes the heartbeat ask the store about a job that a wake-up has named.
    pub(crate) rechecks: Arc<Rechecks>,
    /// Wakes the roster.
    pub(crate) calls: Arc<Calls>,
    /// Who this worker is to the fleet, if anybody.
    pub(crate) member: Option<WorkerKey>,
}

impl Listener {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.listen_for_ever()).await;
    }

    async fn listen_for_ever(&self) {
        loop {
            let mut wakes = self.station.store.subscribe();
            while let Some(wake) = wakes.next().await {
                self.pass_on(&wake);
            }
            tokio::time::sleep(REOPEN).await;
        }
    }

    fn pass_on(&self, wake: &Wake) {
        match wake {
            // Only what is held here, so that the messages of others cost nothing.
            Wake::Cancel(job) | Wake::Lost(job) if self.station.leases.holds(job) => {
                self.rechecks.add(job.clone());
            }
            Wake::Sooner(queue) if self.station.lanes.iter().any(|lane| lane.queue == *queue) => {
                self.sooner.notify_one();
            }
            Wake::Everything => {
                self.sooner.notify_one();
                self.hurry.notify_one();
                self.calls.something.notify_one();
            }
            Wake::Member(member) if self.member.as_ref() == Some(member) => self.calls.member.notify_one(),
            // A waiting claim hears of its queue by itself, and whoever waits for a result is no worker.
            Wake::Cancel(_) | Wake::Lost(_) | Wake::Sooner(_) | Wake::Queue { .. } | Wake::Finished(_) => {}
            Wake::Member(_) | Wake::Places(_) | Wake::Session(_) => {}
        }
    }
}
