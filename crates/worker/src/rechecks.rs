//! The jobs of this worker that wake-ups have named, until the heartbeat has checked them.
//!
//! A wake-up itself stops nothing: any client of the server can publish one, and on Redis even a
//! client of another database.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidemill_core::JobId;
use tokio::sync::Notify;

/// Jobs whose leases to extend now, because the store's answer may be that they are cancelled or
/// lost.
#[derive(Debug, Default)]
pub(crate) struct Rechecks {
    jobs: Mutex<HashSet<JobId>>,
    added: Notify,
}

impl Rechecks {
    pub(crate) fn add(&self, job: JobId) {
        self.lock().insert(job);
        self.added.notify_one();
    }

    /// Waits for jobs to recheck. For one caller at a time.
    pub(crate) async fn take(&self) -> HashSet<JobId> {
        loop {
            let jobs = std::mem::take(&mut *self.lock());
            if !jobs.is_empty() {
                return jobs;
            }
            self.added.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
