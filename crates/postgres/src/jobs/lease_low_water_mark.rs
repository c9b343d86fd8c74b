//! The low-water mark of leases: no existing lease expires before it.
//!
//! Every extension and every end of a lease leaves a dead row in the index until vacuum removes it,
//! and vacuum removes none while a snapshot is held. A scan for expired leases begins with the
//! oldest and passes all dead rows. So after a slow scan the next ones start where it ended, for
//! many times as long, as claims do.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::low_water_mark::{MARK_SLACK_MS, pause_after};

/// Where scans start after a slow one.
#[derive(Debug, Default)]
pub(crate) struct LeaseLowWaterMark(Mutex<Option<LeaseScanMark>>);

#[derive(Debug, Clone, Copy)]
struct LeaseScanMark {
    until: i64,
    scanned: Instant,
    pause: Duration,
}

/// A scan from the start, by the server's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseScan {
    pub(crate) took: Duration,
    /// When it took place, in milliseconds.
    pub(crate) at: i64,
    /// When the first lease that it found expired, in milliseconds.
    pub(crate) oldest: Option<i64>,
}

impl LeaseLowWaterMark {
    /// Where a scan starts; none for the start of the index.
    pub(crate) fn start(&self) -> Option<i64> {
        self.with(|mark| mark.filter(|mark| mark.scanned.elapsed() < mark.pause).map(|mark| mark.until))
    }

    /// Records a scan from the start. The leases that it found may not be rescued yet.
    pub(crate) fn record_scan(&self, scan: LeaseScan) {
        let until = (scan.at - MARK_SLACK_MS).min(scan.oldest.unwrap_or(i64::MAX));
        let set = |pause| LeaseScanMark { until, scanned: Instant::now(), pause };
        self.with(|mark| *mark = pause_after(scan.took).map(set));
    }

    /// Removes the mark. The ends of leases were moved, so some may be before it.
    pub(crate) fn reset(&self) {
        self.with(|mark| *mark = None);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Option<LeaseScanMark>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(took: u64, oldest: Option<i64>) -> LeaseScan {
        LeaseScan { took: Duration::from_millis(took), at: 50_000, oldest }
    }

    #[test]
    fn only_after_a_slow_scan_there_is_a_mark() {
        let mark = LeaseLowWaterMark::default();
        mark.record_scan(scan(1, None));
        assert_eq!(mark.start(), None);
        mark.record_scan(scan(25, None));
        assert_eq!(mark.start(), Some(50_000 - MARK_SLACK_MS));
        mark.reset();
        assert_eq!(mark.start(), None);
    }

    #[test]
    fn a_lease_that_was_found_stays_behind_the_mark_until_it_is_gone() {
        let mark = LeaseLowWaterMark::default();
        mark.record_scan(scan(25, Some(30_000)));
        assert_eq!(mark.start(), Some(30_000));
    }

    #[test]
    fn a_mark_does_not_last() {
        let mark = LeaseLowWaterMark::default();
        mark.record_scan(scan(25, None));
        mark.with(|mark| *mark = mark.map(|mark| LeaseScanMark { pause: Duration::ZERO, ..mark }));
        assert_eq!(mark.start(), None);
    }
}
