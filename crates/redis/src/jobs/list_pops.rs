//! The pops of each worker from each list: in progress, unanswered, and finished.
//!
//! A pop has a number. The server keeps copies of its jobs under that number until the next pop
//! confirms it. A pop is confirmed when its claim has ended: a claim that is dropped before drops
//! its jobs, too. So popped jobs are never lost while their worker lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::{HolderId, Queue};
use tokio::time::Instant;

/// How long the server may still execute a pop without a reply.
const UNANSWERED_TIMEOUT: Duration = Duration::from_secs(120);

/// A worker's use of a list in one shard.
pub(super) type WorkerList = (Queue, u16, HolderId);

/// The id of a pop.
pub(super) fn pop_id(worker: &HolderId, number: u64) -> String {
    format!("{worker}:{number}")
}

/// The pops of this process.
#[derive(Debug, Default)]
pub(crate) struct ListPops {
    lists: Mutex<HashMap<WorkerList, PopState>>,
    claims: AtomicU64,
}

#[derive(Debug)]
struct PopState {
    next: u64,
    /// Replied; their claims, with these numbers, have not ended.
    arrived: Vec<(u64, u64)>,
    /// Confirmed; the server still has their copies.
    finished: Vec<u64>,
    /// Without a reply.
    unanswered: Vec<(u64, Instant)>,
}

impl Default for PopState {
    fn default() -> Self {
        // Unlike the first number of another process with the same name.
        Self {
            next: fastrand::u64(..) >> 16,
            arrived: Vec::new(),
            finished: Vec::new(),
            unanswered: Vec::new(),
        }
    }
}

impl ListPops {
    /// Starts a claim, which may pop several times from each of these shards.
    pub(super) fn start_claim(&self, queue: &Queue, worker: &HolderId, shards: u16) -> ListClaim<'_> {
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        ListClaim {
            pops: self,
            queue: queue.clone(),
            worker: worker.clone(),
            shards,
            number,
            has_ended: false,
        }
    }

    /// Starts a pop of a claim.
    pub(super) fn start(&self, list: WorkerList, claim: u64) -> ListPop<'_> {
        let mut lists = self.lock();
        let state = lists.entry(list.clone()).or_default();
        let expired = state.unanswered.extract_if(.., |(_, since)| since.elapsed() > UNANSWERED_TIMEOUT);
        state.finished.extend(expired.map(|(number, _)| number));
        let number = state.next;
        state.next += 1;
        ListPop { pops: self, finished: state.finished.clone(), list, claim, number, is_answered: false }
    }

    /// The pops of a worker without a reply.
    pub(super) fn unanswered(&self, list: &WorkerList) -> Vec<u64> {
        self.lock()
            .get(list)
            .map(|state| state.unanswered.iter().map(|(number, _)| *number).collect())
            .unwrap_or_default()
    }

    /// Records that the worker has recovered the jobs of these pops.
    pub(super) fn recovered(&self, list: &WorkerList, numbers: &[u64]) {
        if let Some(state) = self.lock().get_mut(list) {
            state.unanswered.retain(|(number, _)| !numbers.contains(number));
            state.finished.extend(numbers);
        }
    }

    /// Removes a worker. Returns the pops whose copies the server still has.
    pub(super) fn forget(&self, worker: &HolderId) -> Vec<(WorkerList, Vec<u64>)> {
        let mut lists = self.lock();
        let gone = lists.extract_if(|(_, _, owner), _| owner == worker);
        gone.map(|(list, state)| (list, state.finished)).filter(|(_, over)| !over.is_empty()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerList, PopState>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim in progress. If it is dropped before its end, all its pops count as unanswered.
#[derive(Debug)]
pub(super) struct ListClaim<'a> {
    pops: &'a ListPops,
    queue: Queue,
    worker: HolderId,
    shards: u16,
    pub(super) number: u64,
    has_ended: bool,
}

impl ListClaim<'_> {
    /// The caller has received the popped jobs.
    pub(super) fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for ListClaim<'_> {
    fn drop(&mut self) {
        let mut lists = self.pops.lock();
        for shard in 0..self.shards {
            let Some(state) = lists.get_mut(&(self.queue.clone(), shard, self.worker.clone())) else {
                continue;
            };
            let pops_of_claim = state.arrived.extract_if(.., |(claim, _)| *claim == self.number);
            let pops_of_claim = pops_of_claim.map(|(_, number)| number);
            match self.has_ended {
                true => state.finished.extend(pops_of_claim),
                false => state.unanswered.extend(pops_of_claim.map(|number| (number, Instant::now()))),
            }
        }
    }
}

/// A pop in progress. If it is dropped without a reply, it is unanswered.
#[derive(Debug)]
pub(super) struct ListPop<'a> {
    pops: &'a ListPops,
    list: WorkerList,
    claim: u64,
    pub(super) number: u64,
    /// Earlier finished pops, which this one confirms to the server.
    pub(super) finished: Vec<u64>,
    is_answered: bool,
}

impl ListPop<'_> {
    /// The server has removed the copies of the finished pops.
    pub(super) fn acknowledged(&mut self) {
        if let Some(state) = self.pops.lock().get_mut(&self.list) {
            state.finished.retain(|number| !self.finished.contains(number));
        }
        self.finished.clear();
    }

    /// The reply has arrived.
    pub(super) fn answered(mut self, has_copies: bool) {
        self.is_answered = true;
        if has_copies && let Some(state) = self.pops.lock().get_mut(&self.list) {
            state.arrived.push((self.claim, self.number));
        }
    }
}

impl Drop for ListPop<'_> {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(state) = self.pops.lock().get_mut(&self.list)
        {
            state.unanswered.push((self.number, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::QueueName;

    use super::*;

    fn list() -> WorkerList {
        (Queue::at_most_once(QueueName::new("q").unwrap()), 0, HolderId::from_process("host", 1, 0))
    }

    #[test]
    fn a_pop_without_an_answer_is_in_doubt_until_it_is_recovered() {
        let (pops, list) = (ListPops::default(), list());
        let number = pops.start(list.clone(), 0).number;
        assert_eq!(pops.unanswered(&list), [number]);
        pops.recovered(&list, &[number]);
        assert!(pops.unanswered(&list).is_empty());
        assert_eq!(pops.start(list, 0).finished, [number]);
    }

    #[test]
    fn the_server_is_told_of_a_pop_that_is_over_until_it_has_heard_of_it() {
        let (pops, list) = (ListPops::default(), list());
        let claim = pops.start_claim(&list.0, &list.2, 1);
        let first = pops.start(list.clone(), claim.number);
        let number = first.number;
        first.answered(true);
        claim.ended();
        assert_eq!(pops.start(list.clone(), 1).finished, [number]);
        let mut again = pops.start(list.clone(), 1);
        assert_eq!(again.finished, [number]);
        again.acknowledged();
        again.answered(false);
        assert!(pops.start(list, 1).finished.is_empty());
    }

    #[test]
    fn what_a_claim_has_popped_is_in_doubt_if_it_is_dropped_before_its_end() {
        let (pops, list) = (ListPops::default(), list());
        let (dropped, other) = (pops.start_claim(&list.0, &list.2, 1), pops.start_claim(&list.0, &list.2, 1));
        let pop = |claim: &ListClaim<'_>| {
            let pop = pops.start(list.clone(), claim.number);
            let (number, over) = (pop.number, pop.finished.clone());
            pop.answered(true);
            (number, over)
        };
        let (number, _) = pop(&dropped);
        // The server keeps its copies meanwhile.
        assert_eq!(pop(&other).1, [0; 0]);
        drop(dropped);
        assert_eq!(pops.unanswered(&list), [number]);
        other.ended();
        assert_eq!(pops.unanswered(&list), [number]);
    }
}
