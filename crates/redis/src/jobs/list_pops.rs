//! The pops of each worker from each list: those under way, those whose answer was lost, and those that are over.
//!
//! A pop has a number, and the server keeps what it took under that number until the next pop says that the answer has
//! arrived. It has when the claim that popped has ended: one that is dropped before takes what it has with it. So what a pop took
//! is never lost while its worker lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::{HolderId, Queue};
use tokio::time::Instant;

/// For how long the server may still execute a pop whose answer was given up.
const IN_DOUBT: Duration = Duration::from_secs(120);

/// A worker's part of a list in one shard.
pub(super) type Place = (Queue, u16, HolderId);

/// The name of a pop.
pub(super) fn mark(worker: &HolderId, number: u64) -> String {
    format!("{worker}:{number}")
}

/// The pops of this process.
#[derive(Debug, Default)]
pub(crate) struct Pops {
    places: Mutex<HashMap<Place, State>>,
    claims: AtomicU64,
}

#[derive(Debug)]
struct State {
    next: u64,
    /// Their answers have arrived, and their claims, which have these numbers, have yet to end.
    arrived: Vec<(u64, u64)>,
    /// Their answers have arrived, and the server still has their copies.
    over: Vec<u64>,
    /// Their answers have not arrived.
    in_doubt: Vec<(u64, Instant)>,
}

impl Default for State {
    fn default() -> Self {
        // Not what another process with the same name may have begun with.
        Self { next: fastrand::u64(..) >> 16, arrived: Vec::new(), over: Vec::new(), in_doubt: Vec::new() }
    }
}

impl Pops {
    /// Begins a claim, which may pop several times from each of these shards.
    pub(super) fn claim(&self, queue: &Queue, worker: &HolderId, shards: u16) -> ListClaim<'_> {
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

    /// Begins a pop of a claim.
    pub(super) fn begin(&self, place: Place, claim: u64) -> Pop<'_> {
        let mut places = self.lock();
        let state = places.entry(place.clone()).or_default();
        let late = state.in_doubt.extract_if(.., |(_, since)| since.elapsed() > IN_DOUBT);
        state.over.extend(late.map(|(number, _)| number));
        let number = state.next;
        state.next += 1;
        Pop { pops: self, over: state.over.clone(), place, claim, number, is_answered: false }
    }

    /// The pops of a worker whose answers were lost.
    pub(super) fn in_doubt(&self, place: &Place) -> Vec<u64> {
        self.lock()
            .get(place)
            .map(|state| state.in_doubt.iter().map(|(number, _)| *number).collect())
            .unwrap_or_default()
    }

    /// What pops have taken is in the worker's hands after all.
    pub(super) fn recovered(&self, place: &Place, numbers: &[u64]) {
        if let Some(state) = self.lock().get_mut(place) {
            state.in_doubt.retain(|(number, _)| !numbers.contains(number));
            state.over.extend(numbers);
        }
    }

    /// Forgets a worker. Returns the pops whose copies the server still has.
    pub(super) fn forget(&self, worker: &HolderId) -> Vec<(Place, Vec<u64>)> {
        let mut places = self.lock();
        let gone = places.extract_if(|(_, _, of), _| of == worker);
        gone.map(|(place, state)| (place, state.over)).filter(|(_, over)| !over.is_empty()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, State>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim under way. Dropped before it has ended, all that it popped is in doubt.
#[derive(Debug)]
pub(super) struct ListClaim<'a> {
    pops: &'a Pops,
    queue: Queue,
    worker: HolderId,
    shards: u16,
    pub(super) number: u64,
    has_ended: bool,
}

impl ListClaim<'_> {
    /// Its caller has what it popped.
    pub(super) fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for ListClaim<'_> {
    fn drop(&mut self) {
        let mut places = self.pops.lock();
        for shard in 0..self.shards {
            let Some(state) = places.get_mut(&(self.queue.clone(), shard, self.worker.clone())) else {
                continue;
            };
            let popped = state.arrived.extract_if(.., |(claim, _)| *claim == self.number);
            let popped = popped.map(|(_, number)| number);
            match self.has_ended {
                true => state.over.extend(popped),
                false => state.in_doubt.extend(popped.map(|number| (number, Instant::now()))),
            }
        }
    }
}

/// A pop under way. Dropped without an answer, it is in doubt.
#[derive(Debug)]
pub(super) struct Pop<'a> {
    pops: &'a Pops,
    place: Place,
    claim: u64,
    pub(super) number: u64,
    /// Earlier pops that are over, to be told to the server.
    pub(super) over: Vec<u64>,
    is_answered: bool,
}

impl Pop<'_> {
    /// The server has heard of those that are over.
    pub(super) fn told(&mut self) {
        if let Some(state) = self.pops.lock().get_mut(&self.place) {
            state.over.retain(|number| !self.over.contains(number));
        }
        self.over.clear();
    }

    /// Its answer has arrived.
    pub(super) fn answered(mut self, has_copies: bool) {
        self.is_answered = true;
        if has_copies && let Some(state) = self.pops.lock().get_mut(&self.place) {
            state.arrived.push((self.claim, self.number));
        }
    }
}

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(state) = self.pops.lock().get_mut(&self.place)
        {
            state.in_doubt.push((self.number, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::QueueName;

    use super::*;

    fn place() -> Place {
        (Queue::at_most_once(QueueName::new("q").unwrap()), 0, HolderId::from_process("host", 1, 0))
    }

    #[test]
    fn a_pop_without_an_answer_is_in_doubt_until_it_is_recovered() {
        let (pops, place) = (Pops::default(), place());
        let number = pops.begin(place.clone(), 0).number;
        assert_eq!(pops.in_doubt(&place), [number]);
        pops.recovered(&place, &[number]);
        assert!(pops.in_doubt(&place).is_empty());
        assert_eq!(pops.begin(place, 0).over, [number]);
    }

    #[test]
    fn the_server_is_told_of_a_pop_that_is_over_until_it_has_heard_of_it() {
        let (pops, place) = (Pops::default(), place());
        let claim = pops.claim(&place.0, &place.2, 1);
        let first = pops.begin(place.clone(), claim.number);
        let number = first.number;
        first.answered(true);
        claim.ended();
        assert_eq!(pops.begin(place.clone(), 1).over, [number]);
        let mut again = pops.begin(place.clone(), 1);
        assert_eq!(again.over, [number]);
        again.told();
        again.answered(false);
        assert!(pops.begin(place, 1).over.is_empty());
    }

    #[test]
    fn what_a_claim_has_popped_is_in_doubt_if_it_is_dropped_before_its_end() {
        let (pops, place) = (Pops::default(), place());
        let (dropped, other) = (pops.claim(&place.0, &place.2, 1), pops.claim(&place.0, &place.2, 1));
        let pop = |claim: &ListClaim<'_>| {
            let pop = pops.begin(place.clone(), claim.number);
            let (number, over) = (pop.number, pop.over.clone());
            pop.answered(true);
            (number, over)
        };
        let (number, _) = pop(&dropped);
        // The server keeps its copies meanwhile.
        assert_eq!(pop(&other).1, [0; 0]);
        drop(dropped);
        assert_eq!(pops.in_doubt(&place), [number]);
        other.ended();
        assert_eq!(pops.in_doubt(&place), [number]);
    }
}
