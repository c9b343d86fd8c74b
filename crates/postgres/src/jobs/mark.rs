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

/// How far before the last batch the next claim starts, in ms: enqueues that began earlier and ended later are
/// found in their order.
const SLACK: i64 = 1_000;

/// The marks of this process's queues, by number.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<HashMap<i32, Mark>>);

#[derive(Debug, Clone, Copy)]
struct Mark {
    due: i64,
    swept: Instant,
}

impl Marks {
    /// Where a claim on `queue` starts; 0 is the beginning.
    pub(crate) fn start(&self, queue: i32) -> i64 {
        self.with(|marks| match marks.get(&queue) {
            Some(mark) if mark.swept.elapsed() < SWEEP => mark.due,
            _ => 0,
        })
    }

    /// A claim that started at `start` found a full batch whose oldest job was due at `oldest`. One such batch
    /// makes no busy queue: the mark would only make the next claim, which finds nothing, look twice.
    pub(crate) fn full(&self, queue: i32, start: i64, oldest: i64) {
        self.with(|marks| {
            let before = marks.get(&queue).copied();
            let due = before.map_or(0, |_| oldest - SLACK);
            let swept = before.filter(|_| start > 0).map_or_else(Instant::now, |mark| mark.swept);
            marks.insert(queue, Mark { due, swept });
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

    #[test]
    fn a_busy_queue_is_claimed_from_its_mark_and_an_idle_one_from_the_beginning() {
        let marks = Marks::default();
        assert_eq!(marks.start(1), 0);
        marks.full(1, 0, 50_000);
        assert_eq!(marks.start(1), 0, "one full batch says nothing yet");
        marks.full(1, 0, 50_000);
        assert_eq!((marks.start(1), marks.start(2)), (50_000 - SLACK, 0));
        marks.short(1);
        assert_eq!(marks.start(1), 0);
    }

    #[test]
    fn full_batches_do_not_put_off_the_next_sweep() {
        let marks = Marks::default();
        marks.full(1, 0, 50_000);
        marks.full(1, 0, 50_000);
        let swept = marks.with(|marks| marks[&1].swept);
        marks.full(1, 49_000, 60_000);
        assert_eq!(marks.with(|marks| marks[&1].swept), swept);
    }
}
