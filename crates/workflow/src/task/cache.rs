//! The cache: runs that stay in memory between their tasks, so that a task need not replay the
//! journal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::store::Verdict;
use tidemill_core::store::runs::RunPosition;
use tidemill_core::workflow::{CommitId, RunId};
use tokio::sync::Notify;

use super::lru::{CachedRun, Lru};
use crate::replay::Replayer;

/// How long a task waits for the result of the previous commit. The store has accepted it, or this
/// task would not exist, but this process may not know that yet. After this time the run is
/// rebuilt.
const COMMIT_RESULT_TIMEOUT: Duration = Duration::from_secs(1);

/// Replayers by run, with least-recently-used eviction.
#[derive(Debug)]
pub(super) struct ReplayerCache {
    lru: Mutex<Lru>,
    /// Notified whenever the result of a commit is known.
    settled: Notify,
    capacity: usize,
}

/// The result of a lookup.
enum CacheLookup {
    Missing,
    Found(Box<Replayer>),
    /// The result of its last commit is not known yet.
    Unsettled,
}

impl ReplayerCache {
    pub(super) fn new(capacity: usize) -> Self {
        Self { lru: Mutex::default(), settled: Notify::new(), capacity }
    }

    /// Takes the replayer of a run at this position. Drops one that is at another position.
    pub(super) async fn take(&self, run: &RunId, at: RunPosition) -> Option<Box<Replayer>> {
        let found = tokio::time::timeout(COMMIT_RESULT_TIMEOUT, async {
            loop {
                // Registers before the lookup, so that a notification in between is not missed.
                let mut notified = std::pin::pin!(self.settled.notified());
                notified.as_mut().enable();
                match self.lookup(run, at) {
                    CacheLookup::Found(replayer) => return Some(replayer),
                    CacheLookup::Missing => return None,
                    CacheLookup::Unsettled => notified.await,
                }
            }
        });
        found.await.ok().flatten()
    }

    /// Like `take`, without waiting.
    pub(super) fn take_now(&self, run: &RunId, at: RunPosition) -> Option<Box<Replayer>> {
        match self.lookup(run, at) {
            CacheLookup::Found(replayer) => Some(replayer),
            CacheLookup::Missing | CacheLookup::Unsettled => None,
        }
    }

    fn lookup(&self, run: &RunId, at: RunPosition) -> CacheLookup {
        let mut lru = self.lock();
        match lru.get(run) {
            None => return CacheLookup::Missing,
            Some(cached) if !cached.settled => return CacheLookup::Unsettled,
            Some(_) => {}
        }
        let Some(cached) = lru.remove(run) else { return CacheLookup::Missing };
        // Dropping a replayer runs user code, so the lock is released first.
        drop(lru);
        let matches = Some(cached.commit) == at.last_commit && cached.replayer.consumed() == at.cursor;
        if matches { CacheLookup::Found(cached.replayer) } else { CacheLookup::Missing }
    }

    /// Puts back a replayer that is at the end of the journal, unless a newer one was inserted
    /// meanwhile.
    pub(super) fn put(&self, run: &RunId, replayer: Box<Replayer>, commit: CommitId) {
        if self.lock().get(run).is_none() {
            self.insert(run, CachedRun::new(replayer, commit, true));
        }
    }

    /// Inserts a replayer whose commit is not settled yet.
    pub(super) fn put_pending(
        self: &Arc<Self>,
        run: &RunId,
        replayer: Box<Replayer>,
        commit: CommitId,
    ) -> PendingCommit {
        let number = self.insert(run, CachedRun::new(replayer, commit, false));
        PendingCommit { cache: self.clone(), run: run.clone(), number }
    }

    fn insert(&self, run: &RunId, cached: CachedRun) -> u64 {
        if self.capacity == 0 {
            return 0;
        }
        let mut lru = self.lock();
        let (number, replaced) = lru.insert(run, cached);
        let evicted = lru.evict(self.capacity);
        drop(lru);
        drop((replaced, evicted));
        number
    }

    /// Applies the result of a commit: makes the replayer usable, or drops it.
    fn settle(&self, pending: &PendingCommit, verdict: Verdict) {
        let mut lru = self.lock();
        let is_pending = |cached: &&mut CachedRun| cached.number() == pending.number && !cached.settled;
        let Some(cached) = lru.get_mut(&pending.run).filter(is_pending) else { return };
        let rejected = match verdict {
            Verdict::Accepted => {
                cached.settled = true;
                None
            }
            Verdict::LeaseLost | Verdict::Unknown => lru.remove(&pending.run),
        };
        drop(lru);
        drop(rejected);
        self.settled.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Lru> {
        // No code in here panics halfway through a change.
        self.lru.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cached replayer whose commit is not settled yet. Dropped without a verdict, the commit counts
/// as rejected.
#[derive(Debug)]
pub(super) struct PendingCommit {
    cache: Arc<ReplayerCache>,
    run: RunId,
    number: u64,
}

impl PendingCommit {
    pub(super) fn settle(self, verdict: Verdict) {
        self.cache.settle(&self, verdict);
    }
}

impl Drop for PendingCommit {
    fn drop(&mut self) {
        self.cache.settle(self, Verdict::LeaseLost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ctx, Program, Workflow};

    const NONE: Workflow<(), ()> = Workflow::new("none");

    const COMMIT: CommitId = CommitId::from_number(7);

    fn at(cursor: u64) -> RunPosition {
        RunPosition { cursor, last_commit: Some(COMMIT) }
    }

    fn replayer(consumed: u64) -> Box<Replayer> {
        let program = Program::new(&NONE, |_: Ctx, ()| async { Ok(()) });
        Box::new(Replayer::new(&program, run("a")).base(consumed))
    }

    fn run(name: &str) -> RunId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_replayer_is_of_use_only_where_the_journal_is() {
        let cache = Arc::new(ReplayerCache::new(2));
        cache.put(&run("a"), replayer(3), COMMIT);
        assert!(cache.take(&run("a"), at(2)).await.is_none());
        assert!(cache.take(&run("a"), at(3)).await.is_none(), "it has been dropped");
        cache.put(&run("a"), replayer(3), COMMIT);
        let other = RunPosition { last_commit: Some(CommitId::from_number(8)), ..at(3) };
        assert!(cache.take(&run("a"), other).await.is_none(), "another commit came there");
        cache.put(&run("a"), replayer(3), COMMIT);
        assert!(cache.take(&run("a"), at(3)).await.is_some());
    }

    #[tokio::test]
    async fn the_one_that_was_used_least_recently_goes() {
        let cache = Arc::new(ReplayerCache::new(2));
        for name in ["a", "b"] {
            cache.put(&run(name), replayer(1), COMMIT);
        }
        let used = cache.take(&run("a"), at(1)).await.unwrap();
        cache.put(&run("a"), used, COMMIT);
        cache.put(&run("c"), replayer(1), COMMIT);
        assert!(cache.take(&run("b"), at(1)).await.is_none());
        assert!(cache.take(&run("a"), at(1)).await.is_some() && cache.take(&run("c"), at(1)).await.is_some());
        let off = Arc::new(ReplayerCache::new(0));
        off.put(&run("a"), replayer(1), COMMIT);
        assert!(off.take(&run("a"), at(1)).await.is_none());
    }

    #[tokio::test]
    async fn the_next_task_waits_for_word_of_the_commit_before() {
        let cache = Arc::new(ReplayerCache::new(2));
        let pending = cache.put_pending(&run("a"), replayer(1), COMMIT);
        let id = run("a");
        let (found, ()) = tokio::join!(cache.take(&id, at(1)), async {
            tokio::task::yield_now().await;
            pending.settle(Verdict::Accepted);
        });
        assert!(found.is_some());
        let rejected = cache.put_pending(&run("a"), replayer(1), COMMIT);
        rejected.settle(Verdict::LeaseLost);
        assert!(cache.take(&run("a"), at(1)).await.is_none());
        drop(cache.put_pending(&run("a"), replayer(1), COMMIT));
        assert!(cache.take(&run("a"), at(1)).await.is_none());
    }
}
