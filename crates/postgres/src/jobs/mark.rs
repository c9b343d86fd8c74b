//! The low-water mark of a busy queue: where its oldest waiting jobs are.
//!
//! Rows that have been claimed stay in the index until vacuum comes by, and every claim that starts at the
//! beginning has to pass them; a busy queue leaves a million of them a minute. So after a full batch the next
//! claim starts a little before where that one did. An older job can still turn up behind the mark, out of a
//! transaction that took long or a claim that failed; so at least one claim a second starts at the beginning,
//! and so does the first one that would otherwise go home empty.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long claims may go without starting at the beginning.
const SWEEP: Duration = Duration::from_secs(1);

/// How far before the last batch the next claim starts at most, in ms: enqueues that began earlier and ended later
/// are found in their order.
const SLACK: i64 = 1_000;

/// The same in places, as far as the last batch tells how close they are: of jobs that were added by the million
/// a second leaves tens of thousands, a page of the index for every two hundred.
const PLACES: i64 = 1_000;

/// A place in a queue: when a job is due, and its number among those that are due then.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) due: i64,
    pub(crate) seq: i64,
}

impl Place {
    /// The beginning of every queue.
    pub(crate) const BEGINNING: Self = Self { due: 0, seq: 0 };

    /// A little before a batch. If all of it is due at once, as much may be before and behind it, and it is its beginning.
    fn before(batch: &[Self]) -> Self {
        let (Some(oldest), Some(newest)) = (batch.first(), batch.last()) else { return Self::BEGINNING };
        let jobs = i64::try_from(batch.len()).unwrap_or(i64::MAX);
        match ((newest.due - oldest.due).saturating_mul(PLACES) / jobs).min(SLACK) {
            0 => *oldest,
            slack => Self { due: oldest.due - slack, seq: 0 },
        }
    }
}

/// The marks of this process's queues, by number.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<i32, Mark>>);

#[derive(Debug, Clone, Copy)]
struct Mark {
    place: Place,
    swept: Instant,
}

impl Marks {
    /// Where a claim on `queue` starts.
    pub(crate) fn start(&self, queue: i32) -> Place {
        self.with(|marks| match marks.get(&queue) {
            Some(mark) if mark.swept.elapsed() < SWEEP => mark.place,
            _ => Place::BEGINNING,
        })
    }

    /// A claim that started at `start` found a full batch, here from its oldest job to its newest. One such batch
    /// makes no busy queue: the mark would only make the next claim, which finds nothing, look twice.
    pub(crate) fn full(&self, queue: i32, start: Place, batch: &[Place]) {
        self.with(|marks| {
            let before = marks.get(&queue).copied();
            let place = before.map_or(Place::BEGINNING, |_| Place::before(batch));
            let since = before.filter(|_| start > Place::BEGINNING);
            marks.insert(queue, Mark { place, swept: since.map_or_else(Instant::now, |mark| mark.swept) });
        });
    }

    /// A claim found less than it could have taken: the queue is not busy.
    pub(crate) fn short(&self, queue: i32) {
        self.with(|marks| marks.remove(&queue));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<i32, Mark>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten jobs, so many ms from the first to the last.
    fn batch(due: i64, span: i64) -> Vec<Place> {
        (0..10).map(|n| Place { due: due + span * n / 9, seq: 100 + n }).collect()
    }

    #[test]
    fn a_busy_queue_is_claimed_from_its_mark_and_an_idle_one_from_the_beginning() {
        let (marks, beginning) = (Marks::default(), Place::BEGINNING);
        assert_eq!(marks.start(1), beginning);
        marks.full(1, beginning, &batch(50_000, 900));
        assert_eq!(marks.start(1), beginning, "one full batch says nothing yet");
        marks.full(1, beginning, &batch(50_000, 900));
        assert_eq!((marks.start(1).due, marks.start(2)), (50_000 - SLACK, beginning));
        marks.short(1);
        assert_eq!(marks.start(1), beginning);
    }

    #[test]
    fn the_closer_jobs_are_to_one_another_the_closer_is_the_mark_to_them() {
        assert_eq!(Place::before(&batch(50_000, 2)), Place { due: 50_000 - 200, seq: 0 });
        assert_eq!(Place::before(&batch(50_000, 0)), Place { due: 50_000, seq: 100 });
    }

    #[test]
    fn full_batches_do_not_put_off_the_next_sweep() {
        let marks = Marks::default();
        marks.full(1, Place::BEGINNING, &batch(50_000, 900));
        marks.full(1, Place::BEGINNING, &batch(50_000, 900));
        let swept = marks.with(|marks| marks[&1].swept);
        marks.full(1, Place { due: 49_000, seq: 0 }, &batch(60_000, 900));
        assert_eq!(marks.with(|marks| marks[&1].swept), swept);
    }
}
