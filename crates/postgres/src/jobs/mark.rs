//! The low-water mark of a busy queue: where its oldest waiting jobs are.
//!
//! Rows that have been claimed stay in the index until vacuum comes by, and every claim that starts at the
//! beginning has to pass them; a busy queue leaves a million of them a minute. So after a full batch the next
//! claim starts a little before where that one did. An older job can still turn up behind the mark, out of a
//! transaction that took long or a claim that failed; so at least one claim a second starts at the beginning,
//! and so does the first one that would otherwise go home empty.
//!
//! While somebody holds a snapshot, vacuum removes nothing, and a look from the beginning takes longer and longer. After one
//! that was slow, looks start at the mark for many times as long, whether the queue is busy or not: so looks from
//! the beginning take a small part of the time, however many rows are dead.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::Timestamp;

/// How long claims may go without starting at the beginning.
const SWEEP: Duration = Duration::from_secs(1);

/// A look from the beginning that takes longer has passed many dead rows.
const SLOW: Duration = Duration::from_millis(10);

/// After a slow look, the next from the beginning waits so many times as long, but not longer than `LONGEST`.
const RESTS: u32 = 50;

/// The longest time without a look from the beginning.
const LONGEST: Duration = Duration::from_secs(60);

/// How long to wait for the next look from the beginning after one that took so long; none if it was quick.
pub(super) fn rest_after(took: Duration) -> Option<Duration> {
    (took > SLOW).then(|| took.saturating_mul(RESTS).clamp(SWEEP, LONGEST))
}

/// How far before the last batch the next claim starts at most, in ms: enqueues that began earlier and ended later
/// are found in their order.
pub(super) const SLACK: i64 = 1_000;

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
    /// When a look last started at the beginning.
    swept: Instant,
    /// How long to rest after it, if it was slow.
    rest: Option<Duration>,
}

impl Mark {
    /// How long until the next look from the beginning, if it has to be waited for.
    fn left(&self) -> Option<Duration> {
        self.rest?.checked_sub(self.swept.elapsed()).filter(|left| !left.is_zero())
    }
}

/// A look at a queue: where it started, how long it took, and what time it was when it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) start: Place,
    pub(crate) took: Duration,
    pub(crate) began: Timestamp,
}

impl Marks {
    /// Where a claim on `queue` starts.
    pub(crate) fn start(&self, queue: i32) -> Place {
        self.with(|marks| match marks.get(&queue) {
            Some(mark) if mark.swept.elapsed() < mark.rest.unwrap_or(SWEEP) => mark.place,
            _ => Place::BEGINNING,
        })
    }

    /// How long until a claim on `queue` may start at the beginning, if the last that did was slow.
    pub(crate) fn rests_for(&self, queue: i32) -> Option<Duration> {
        self.with(|marks| marks.get(&queue).and_then(Mark::left))
    }

    /// A claim found a full batch, here from its oldest job to its newest. One such batch makes no busy queue: the mark
    /// would only make the next claim, which finds nothing, look twice.
    pub(crate) fn full(&self, queue: i32, look: Look, batch: &[Place]) {
        self.with(|marks| {
            let before = marks.get(&queue).copied();
            let mark = match before.filter(|_| look.start > Place::BEGINNING) {
                Some(mark) => Mark { place: Place::before(batch), ..mark },
                None => {
                    let rest = rest_after(look.took);
                    let is_busy = before.is_some() || rest.is_some();
                    let place = if is_busy { Place::before(batch) } else { Place::BEGINNING };
                    Mark { place, swept: Instant::now(), rest }
                }
            };
            marks.insert(queue, mark);
        });
    }

    /// A claim found less than it could have taken: the queue is not busy. If it had to pass many dead rows for that, the
    /// next ones start where it ended.
    pub(crate) fn short(&self, queue: i32, look: Look) {
        self.with(|marks| {
            if look.start > Place::BEGINNING {
                if marks.get(&queue).and_then(Mark::left).is_none() {
                    marks.remove(&queue);
                }
                return;
            }
            match rest_after(look.took) {
                Some(rest) => {
                    let place = Place { due: look.began.0 - SLACK, seq: 0 };
                    marks.insert(queue, Mark { place, swept: Instant::now(), rest: Some(rest) });
                }
                None => drop(marks.remove(&queue)),
            }
        });
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

    /// A look from this place that took so many ms, an hour after the beginning of time.
    fn look(start: Place, took: u64) -> Look {
        Look { start, took: Duration::from_millis(took), began: Timestamp(3_600_000) }
    }

    #[test]
    fn after_a_slow_look_claims_start_where_it_ended() {
        let (marks, beginning) = (Marks::default(), Place::BEGINNING);
        marks.short(1, look(beginning, 1));
        assert_eq!((marks.start(1), marks.rests_for(1)), (beginning, None));
        marks.short(1, look(beginning, 88));
        let mark = marks.start(1);
        assert_eq!(mark.due, 3_600_000 - SLACK);
        assert!(marks.rests_for(1).is_some_and(|rest| rest > Duration::from_secs(4)));
        marks.short(1, look(mark, 1));
        assert_eq!(marks.start(1), mark, "an empty look from the mark says nothing of what is before it");
        marks.with(|marks| marks.values_mut().for_each(|mark| mark.rest = Some(Duration::ZERO)));
        assert_eq!((marks.start(1), marks.rests_for(1)), (beginning, None));
    }

    #[test]
    fn a_busy_queue_is_claimed_from_its_mark_and_an_idle_one_from_the_beginning() {
        let (marks, beginning) = (Marks::default(), Place::BEGINNING);
        assert_eq!(marks.start(1), beginning);
        marks.full(1, look(beginning, 1), &batch(50_000, 900));
        assert_eq!(marks.start(1), beginning, "one full batch says nothing yet");
        marks.full(1, look(beginning, 1), &batch(50_000, 900));
        assert_eq!((marks.start(1).due, marks.start(2)), (50_000 - SLACK, beginning));
        marks.short(1, look(marks.start(1), 1));
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
        marks.full(1, look(Place::BEGINNING, 1), &batch(50_000, 900));
        marks.full(1, look(Place::BEGINNING, 1), &batch(50_000, 900));
        let swept = marks.with(|marks| marks[&1].swept);
        marks.full(1, look(Place { due: 49_000, seq: 0 }, 1), &batch(60_000, 900));
        assert_eq!(marks.with(|marks| marks[&1].swept), swept);
    }
}
