//! The listener: receives wake-ups and notifies the part that each concerns. A wake-up changes no
//! job; it makes a part query the store.

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

/// Pause before subscribing again. Subscriptions do not end; if one does, this prevents a hot loop.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);

/// Dispatches wake-ups to the parts of the worker.
pub(crate) struct Listener {
    pub(crate) shared: Arc<WorkerShared>,
    /// Wakes the promoter.
    pub(crate) promote_now: Arc<Notify>,
    /// Makes the heartbeat extend all leases, which detects cancelled jobs.
    pub(crate) extend_now: Arc<Notify>,
    /// Makes the heartbeat check the jobs that a wake-up has named.
    pub(crate) rechecks: Arc<Rechecks>,
    /// Wakes the registration.
    pub(crate) registration: Arc<RegistrationWakes>,
    /// The key of this worker in the fleet, if it is registered.
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
            // Only for jobs that this worker holds, so that other workers' messages cost nothing.
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
            // Waiting claims receive wake-ups of their queue themselves, and workers do not wait
            // for results.
            Wake::Cancel(_)
            | Wake::LeaseLost(_)
            | Wake::DueEarlier(_)
            | Wake::Queue { .. }
            | Wake::Finished(_) => {}
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => {}
        }
    }
}
