//! The public handle to wait for the end of a job.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;

use super::{CompletionWaiter, CompletionWaiters};
use crate::name::JobId;
use crate::store::Store;

/// The delay before the first poll without a wake-up, which is what a lost wake-up costs. It
/// doubles with each poll, up to the maximum. Subscribers are notified after every gap, so polls
/// only cover unforeseen losses.
const FIRST_POLL_DELAY: Duration = Duration::from_secs(1);
const MAX_POLL_DELAY: Duration = Duration::from_secs(16);

/// Says when to read a job, a chain or a run again because it may have ended.
/// [`Client::watch`](crate::Client::watch) creates it. Create it before the first read, so that an
/// end in between is not missed.
///
/// All watches of a client share one subscription to the store, and each is woken only for its own
/// job. They read the subscription for each other. If the store wakes a watch whose
/// [`next`](Self::next) is then neither polled nor dropped, the others get that message late: when
/// one of them is polled next, at the latest after its poll delay.
pub struct CompletionWatch {
    store: Arc<dyn Store>,
    waiter: CompletionWaiter,
    poll_delay: Duration,
}

impl fmt::Debug for CompletionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionWatch").field("poll_delay", &self.poll_delay).finish_non_exhaustive()
    }
}

impl CompletionWatch {
    pub(crate) fn new(store: Arc<dyn Store>, completions: &Arc<CompletionWaiters>, job: &JobId) -> Self {
        Self { store, waiter: completions.wait_for(job.chain()), poll_delay: FIRST_POLL_DELAY }
    }

    /// Completes when the job should be read again.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped, the next call receives the notification.
    pub async fn next(&mut self) {
        let timer = self.store.clock().sleep(self.poll_delay);
        self.poll_delay = MAX_POLL_DELAY.min(self.poll_delay * 2);
        select(self.waiter.notified(), timer).await;
    }
}
