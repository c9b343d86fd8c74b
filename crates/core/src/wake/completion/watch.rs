//! Watching for an end: when it is worth looking at a job again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;

use super::{CompletionWaiter, CompletionWaiters};
use crate::name::JobId;
use crate::store::Store;

/// How soon to look when no wake-up has come: a lost one costs this much. The pause doubles while nothing happens, up to
/// the longest: whoever listens is told of every gap, so that looking is for what nobody can have foreseen.
const FIRST_POLL_DELAY: Duration = Duration::from_secs(1);
const MAX_POLL_DELAY: Duration = Duration::from_secs(16);

/// Says when to look at a job, a chain or a run again because it may have ended. Made by
/// [`Client::watch`](crate::Client::watch) before the first look, so that an end between the two is not missed.
///
/// However many there are, they listen to the store once, and one is woken for the end of its own job, not for those of
/// others. They read for each other: one whose [`next`](Self::next) was called by the store and is neither polled nor
/// dropped keeps what it was called for from the others until one of them is polled, which is their next regular look at
/// the latest.
pub struct CompletionWatch {
    store: Arc<dyn Store>,
    waiter: CompletionWaiter,
    pause: Duration,
}

impl fmt::Debug for CompletionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("pause", &self.pause).finish_non_exhaustive()
    }
}

impl CompletionWatch {
    pub(crate) fn new(store: Arc<dyn Store>, completions: &Arc<CompletionWaiters>, job: &JobId) -> Self {
        Self { store, waiter: completions.wait_for(job.chain()), pause: FIRST_POLL_DELAY }
    }

    /// Completes when it is worth looking again. May be dropped before: the next one hears what this one would have.
    pub async fn next(&mut self) {
        let pause = self.store.clock().sleep(self.pause);
        self.pause = MAX_POLL_DELAY.min(self.pause * 2);
        select(self.waiter.notified(), pause).await;
    }
}
