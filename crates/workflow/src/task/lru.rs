//! The data structure of the cache: runs with least-recently-used eviction.

use std::collections::{BTreeMap, HashMap};

use tidemill_core::workflow::{CommitId, RunId};

use crate::replay::Replayer;

/// Cached runs in the order of insertion. Using a run takes it out, so the oldest one is the least
/// recently used.
#[derive(Debug, Default)]
pub(super) struct Lru {
    runs: HashMap<RunId, CachedRun>,
    /// The runs in the order of insertion.
    order: BTreeMap<u64, RunId>,
    /// The number of the last insertion.
    last: u64,
}

/// A run in memory.
#[derive(Debug)]
pub(super) struct CachedRun {
    pub(super) replayer: Box<Replayer>,
    /// The replayer's last commit. A later run may reuse the id, with other commits.
    pub(super) commit: CommitId,
    /// Whether the last commit was accepted. Until then the replayer is unusable: if the commit was
    /// rejected, another worker may have reached the same position with different commands.
    pub(super) settled: bool,
    /// The number of its insertion.
    number: u64,
}

impl CachedRun {
    pub(super) fn new(replayer: Box<Replayer>, commit: CommitId, settled: bool) -> Self {
        Self { replayer, commit, settled, number: 0 }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Lru {
    pub(super) fn get(&self, run: &RunId) -> Option<&CachedRun> {
        self.runs.get(run)
    }

    pub(super) fn get_mut(&mut self, run: &RunId) -> Option<&mut CachedRun> {
        self.runs.get_mut(run)
    }

    /// Inserts a run. Returns the number of the insertion, and the run it has replaced.
    pub(super) fn insert(&mut self, run: &RunId, cached: CachedRun) -> (u64, Option<CachedRun>) {
        self.last += 1;
        let number = self.last;
        let replaced = self.runs.insert(run.clone(), CachedRun { number, ..cached });
        if let Some(replaced) = &replaced {
            self.order.remove(&replaced.number);
        }
        self.order.insert(number, run.clone());
        (number, replaced)
    }

    pub(super) fn remove(&mut self, run: &RunId) -> Option<CachedRun> {
        let cached = self.runs.remove(run)?;
        self.order.remove(&cached.number);
        Some(cached)
    }

    /// Removes the oldest run if there are more than `capacity`.
    pub(super) fn evict(&mut self, capacity: usize) -> Option<CachedRun> {
        let (_, run) = (self.runs.len() > capacity).then(|| self.order.pop_first()).flatten()?;
        self.runs.remove(&run)
    }
}
