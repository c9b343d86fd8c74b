//! The pops of each worker from each list: those under way, those whose answer was lost, and those that are over.
//!
//! A pop has a number, and the server keeps what it took under that number until the next pop says that the answer has
//! arrived. So what a pop took is never lost while its worker lives.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::{Queue, WorkerId};
use tokio::time::Instant;

/// For how long the server may still execute a pop whose answer was given up.
const IN_DOUBT: Duration = Duration::from_secs(120);

/// A worker's part of a list in one shard.
pub(super) type Place = (Queue, u16, WorkerId);

/// The name of a pop.
pub(super) fn mark(worker: &WorkerId, number: u64) -> String {
    format!("{worker}:{number}")
}

/// The pops of this process.
#[derive(Debug, Default)]
pub(crate) struct Pops(Mutex<HashMap<Place, State>>);

#[derive(Debug)]
struct State {
    next: u64,
    /// Their answers have arrived, and the server still has their copies.
    over: Vec<u64>,
    /// Their answers have not arrived.
    in_doubt: Vec<(u64, Instant)>,
}

impl Default for State {
    fn default() -> Self {
        // Not what another process with the same name may have begun with.
        Self { next: fastrand::u64(..) >> 16, over: Vec::new(), in_doubt: Vec::new() }
    }
}

impl Pops {
    /// Begins a pop.
    pub(super) fn begin(&self, place: Place) -> Pop<'_> {
        let mut places = self.lock();
        let state = places.entry(place.clone()).or_default();
        let late = state.in_doubt.extract_if(.., |(_, since)| since.elapsed() > IN_DOUBT);
        state.over.extend(late.map(|(number, _)| number));
        let number = state.next;
        state.next += 1;
        Pop { pops: self, over: state.over.clone(), place, number, is_answered: false }
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
    pub(super) fn forget(&self, worker: &WorkerId) -> Vec<(Place, Vec<u64>)> {
        let mut places = self.lock();
        let gone = places.extract_if(|(_, _, of), _| of == worker);
        gone.map(|(place, state)| (place, state.over)).filter(|(_, over)| !over.is_empty()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pop under way. Dropped without an answer, it is in doubt.
#[derive(Debug)]
pub(super) struct Pop<'a> {
    pops: &'a Pops,
    place: Place,
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
            state.over.push(self.number);
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
        (Queue::at_most_once(QueueName::new("q").unwrap()), 0, WorkerId::of_process("host", 1, 0))
    }

    #[test]
    fn a_pop_without_an_answer_is_in_doubt_until_it_is_recovered() {
        let (pops, place) = (Pops::default(), place());
        let number = pops.begin(place.clone()).number;
        assert_eq!(pops.in_doubt(&place), [number]);
        pops.recovered(&place, &[number]);
        assert!(pops.in_doubt(&place).is_empty());
        assert_eq!(pops.begin(place).over, [number]);
    }

    #[test]
    fn the_server_is_told_of_a_pop_that_is_over_until_it_has_heard_of_it() {
        let (pops, place) = (Pops::default(), place());
        let first = pops.begin(place.clone());
        let number = first.number;
        first.answered(true);
        assert_eq!(pops.begin(place.clone()).over, [number]);
        let mut again = pops.begin(place.clone());
        assert_eq!(again.over, [number]);
        again.told();
        again.answered(false);
        assert!(pops.begin(place).over.is_empty());
    }
}
