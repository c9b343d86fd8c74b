//! The low-water mark of leases: none that is there runs out before it.
//!
//! Every extension and every end of a lease leaves a dead row in the index until vacuum comes by, and none goes while somebody
//! holds a snapshot. A look for leases that have run out begins with the oldest and passes all of them. So after a slow look the
//! next ones start where it ended, for many times as long, as claims do.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::mark::{SLACK, rest_after};

/// Where looks start after a slow one.
#[derive(Debug, Default)]
pub(crate) struct LeaseMark(Mutex<Option<Mark>>);

#[derive(Debug, Clone, Copy)]
struct Mark {
    until: i64,
    swept: Instant,
    rest: Duration,
}

/// A look from the beginning, by the server's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep {
    pub(crate) took: Duration,
    /// When it took place, in ms.
    pub(crate) at: i64,
    /// When the first lease that it found ran out, in ms.
    pub(crate) oldest: Option<i64>,
}

impl LeaseMark {
    /// Where a look starts; none for the beginning.
    pub(crate) fn start(&self) -> Option<i64> {
        self.with(|mark| mark.filter(|mark| mark.swept.elapsed() < mark.rest).map(|mark| mark.until))
    }

    /// A look has started at the beginning. What it has found may not be rescued yet.
    pub(crate) fn swept(&self, sweep: Sweep) {
        let until = (sweep.at - SLACK).min(sweep.oldest.unwrap_or(i64::MAX));
        let set = |rest| Mark { until, swept: Instant::now(), rest };
        self.with(|mark| *mark = rest_after(sweep.took).map(set));
    }

    /// The ends of leases were moved: there may be some before the mark.
    pub(crate) fn forget(&self) {
        self.with(|mark| *mark = None);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Option<Mark>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(took: u64, oldest: Option<i64>) -> Sweep {
        Sweep { took: Duration::from_millis(took), at: 50_000, oldest }
    }

    #[test]
    fn only_after_a_slow_look_there_is_a_mark() {
        let mark = LeaseMark::default();
        mark.swept(sweep(1, None));
        assert_eq!(mark.start(), None);
        mark.swept(sweep(25, None));
        assert_eq!(mark.start(), Some(50_000 - SLACK));
        mark.forget();
        assert_eq!(mark.start(), None);
    }

    #[test]
    fn a_lease_that_was_found_stays_behind_the_mark_until_it_is_gone() {
        let mark = LeaseMark::default();
        mark.swept(sweep(25, Some(30_000)));
        assert_eq!(mark.start(), Some(30_000));
    }

    #[test]
    fn a_mark_does_not_last() {
        let mark = LeaseMark::default();
        mark.swept(sweep(25, None));
        mark.with(|mark| *mark = mark.map(|mark| Mark { rest: Duration::ZERO, ..mark }));
        assert_eq!(mark.start(), None);
    }
}
