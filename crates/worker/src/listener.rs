//! Receives wake-ups and passes each to the part it concerns. A wake-up changes no job: it makes a part ask the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::wake::Wake;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::rechecks::Rechecks;
use crate::registration::RegistrationWakes;
use crate::shared::WorkerShared;

/// A stream of wake-ups never ends; should one end anyway, it is opened again, but not in a hot loop.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);

/// Passes wake-ups on to whom they concern.
pub(crate) struct Listener {
    pub(crate) shared: Arc<WorkerShared>,
    /// Wakes the promoter.
    pub(crate) promote_now: Arc<Notify>,
    /// Wakes the heartbeat, which learns what was cancelled.
    pub(crate) extend_now: Arc<Notify>,
    /// Makes the heartbeat ask the store about a job that a wake-up has named.
    pub(crate) rechecks: Arc<Rechecks>,
    /// Wakes the roster.
    pub(crate) registration: Arc<RegistrationWakes>,
    /// Who this worker is to the fleet, if anybody.
    pub(crate) worker_key: Option<WorkerKey>,
}

impl Listener {
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.listen_loop()).await;
    }

    async fn listen_loop(&self) {
        loop {
            let mut wakes = self.shared.store.subscribe();
            while let Some(wake) = wakes.next().await {
                self.dispatch(&wake);
            }
            tokio::time::sleep(RESUBSCRIBE_PAUSE).await;
        }
    }

    fn dispatch(&self, wake: &Wake) {
        match wake {
            // Only what is held here, so that the messages of others cost nothing.
            Wake::Cancel(job) | Wake::LeaseLost(job) if self.shared.leases.contains(job) => {
                self.rechecks.add(job.clone());
            }
            Wake::DueEarlier(queue) if self.shared.queue_slots.iter().any(|slots| slots.queue == *queue) => {
                self.promote_now.notify_one();
            }
            Wake::Everything => {
                self.promote_now.notify_one();
                self.extend_now.notify_one();
                self.registration.everything.notify_one();
            }
            Wake::Worker(member) if self.worker_key.as_ref() == Some(member) => {
                self.registration.orders.notify_one()
            }
            // A waiting claim hears of its queue by itself, and whoever waits for a result is no worker.
            Wake::Cancel(_)
            | Wake::LeaseLost(_)
            | Wake::DueEarlier(_)
            | Wake::Queue { .. }
            | Wake::Finished(_) => {}
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => {}
        }
    }
}
