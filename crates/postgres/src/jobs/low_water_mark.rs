//! The low-water mark of a busy queue: the position of its oldest waiting jobs.
//!
//! Claimed rows stay in the index until vacuum removes them, and every claim from the start of the
//! queue has to pass them; a busy queue leaves a million of them a minute. So after a full batch
//! the next claim starts a little before where that one did. An older job can still appear before
//! the mark, from a slow transaction or a failed claim. So at least one claim a second starts at
//! the start of the queue, and so does the first one that would otherwise find nothing.
//!
//! While a snapshot is held, vacuum removes nothing, and a scan from the start takes longer and
//! longer. After a slow one, claims start at the mark for many times as long, whether the queue is
//! busy or not. So scans from the start take a small part of the time, however many rows are dead.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::Timestamp;

/// How long claims may go without a scan from the start.
const MAX_FULL_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// A scan from the start that takes longer has passed many dead rows.
const SLOW_SCAN: Duration = Duration::from_millis(10);

/// After a slow scan, the next from the start waits this many times as long, but not longer than
/// `MAX_PAUSE`.
const PAUSE_FACTOR: u32 = 50;

/// The longest time without a scan from the start.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The pause after a scan from the start that took this long; none if it was quick.
pub(super) fn pause_after(took: Duration) -> Option<Duration> {
    (took > SLOW_SCAN).then(|| took.saturating_mul(PAUSE_FACTOR).clamp(MAX_FULL_SCAN_INTERVAL, MAX_PAUSE))
}

/// How far before the last batch the next claim starts at most, in milliseconds. Enqueues that
/// began earlier and committed later are then found in their order.
pub(super) const MARK_SLACK_MS: i64 = 1_000;

/// The same in jobs, estimated from the density of the last batch. Jobs added at a million a second
/// leave tens of thousands of dead rows in that time, a page of the index for every two hundred.
const MARK_SLACK_JOBS: i64 = 1_000;

/// A position in a queue: when a job is due, and its number among jobs due at the same time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuePosition {
    pub(crate) due: i64,
    pub(crate) seq: i64,
}

impl QueuePosition {
    /// The start of every queue.
    pub(crate) const START: Self = Self { due: 0, seq: 0 };

    /// A position a little before a batch. If all of the batch is due at the same time, it is the
    /// start of the batch.
    fn before(batch: &[Self]) -> Self {
        let (Some(oldest), Some(newest)) = (batch.first(), batch.last()) else { return Self::START };
        let jobs = i64::try_from(batch.len()).unwrap_or(i64::MAX);
        match ((newest.due - oldest.due).saturating_mul(MARK_SLACK_JOBS) / jobs).min(MARK_SLACK_MS) {
            0 => *oldest,
            slack => Self { due: oldest.due - slack, seq: 0 },
        }
    }
}

/// The marks of this process's queues, by queue id.
#[derive(Debug, Default)]
pub(crate) struct LowWaterMarks(Mutex<HashMap<i32, LowWaterMark>>);

#[derive(Debug, Clone, Copy)]
struct LowWaterMark {
    position: QueuePosition,
    /// When a scan last started at the start.
    scanned: Instant,
    /// The pause after it, if it was slow.
    pause: Option<Duration>,
}

impl LowWaterMark {
    /// How much of the pause before the next scan from the start is left.
    fn pause_left(&self) -> Option<Duration> {
        self.pause?.checked_sub(self.scanned.elapsed()).filter(|left| !left.is_zero())
    }
}

/// A scan of a queue: where it started, how long it took, and when it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimScan {
    pub(crate) start: QueuePosition,
    pub(crate) took: Duration,
    pub(crate) began: Timestamp,
}

impl LowWaterMarks {
    /// Where a claim on `queue` starts.
    pub(crate) fn start(&self, queue: i32) -> QueuePosition {
        self.with(|marks| match marks.get(&queue) {
            Some(mark) if mark.scanned.elapsed() < mark.pause.unwrap_or(MAX_FULL_SCAN_INTERVAL) => {
                mark.position
            }
            _ => QueuePosition::START,
        })
    }

    /// How long until a claim on `queue` may start at the start, if the last that did was slow.
    pub(crate) fn pause_left(&self, queue: i32) -> Option<Duration> {
        self.with(|marks| marks.get(&queue).and_then(LowWaterMark::pause_left))
    }

    /// Records a claim that found a full batch, sorted from its oldest job to its newest. One such
    /// batch does not make a queue busy: the mark would only make the next claim, which finds
    /// nothing, scan twice.
    pub(crate) fn record_full(&self, queue: i32, scan: ClaimScan, batch: &[QueuePosition]) {
        self.with(|marks| {
            let before = marks.get(&queue).copied();
            let mark = match before.filter(|_| scan.start > QueuePosition::START) {
                Some(mark) => LowWaterMark { position: QueuePosition::before(batch), ..mark },
                None => {
                    let pause = pause_after(scan.took);
                    let is_busy = before.is_some() || pause.is_some();
                    let position = if is_busy { QueuePosition::before(batch) } else { QueuePosition::START };
                    LowWaterMark { position, scanned: Instant::now(), pause }
                }
            };
            marks.insert(queue, mark);
        });
    }

    /// Records a claim that found less than it could have taken: the queue is not busy. If it had
    /// to pass many dead rows, the next claims start where it ended.
    pub(crate) fn record_short(&self, queue: i32, scan: ClaimScan) {
        self.with(|marks| {
            if scan.start > QueuePosition::START {
                if marks.get(&queue).and_then(LowWaterMark::pause_left).is_none() {
                    marks.remove(&queue);
                }
                return;
            }
            match pause_after(scan.took) {
                Some(pause) => {
                    let position = QueuePosition { due: scan.began.0 - MARK_SLACK_MS, seq: 0 };
                    marks.insert(
                        queue,
                        LowWaterMark { position, scanned: Instant::now(), pause: Some(pause) },
                    );
                }
                None => drop(marks.remove(&queue)),
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<i32, LowWaterMark>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten jobs, so many milliseconds from the first to the last.
    fn batch(due: i64, span: i64) -> Vec<QueuePosition> {
        (0..10).map(|n| QueuePosition { due: due + span * n / 9, seq: 100 + n }).collect()
    }

    /// A scan from this position that took so many milliseconds.
    fn scan(start: QueuePosition, took: u64) -> ClaimScan {
        ClaimScan { start, took: Duration::from_millis(took), began: Timestamp(3_600_000) }
    }

    #[test]
    fn after_a_slow_scan_claims_start_where_it_ended() {
        let (marks, start) = (LowWaterMarks::default(), QueuePosition::START);
        marks.record_short(1, scan(start, 1));
        assert_eq!((marks.start(1), marks.pause_left(1)), (start, None));
        marks.record_short(1, scan(start, 88));
        let mark = marks.start(1);
        assert_eq!(mark.due, 3_600_000 - MARK_SLACK_MS);
        assert!(marks.pause_left(1).is_some_and(|pause| pause > Duration::from_secs(4)));
        marks.record_short(1, scan(mark, 1));
        assert_eq!(marks.start(1), mark, "an empty scan from the mark says nothing about jobs before it");
        marks.with(|marks| marks.values_mut().for_each(|mark| mark.pause = Some(Duration::ZERO)));
        assert_eq!((marks.start(1), marks.pause_left(1)), (start, None));
    }

    #[test]
    fn a_busy_queue_is_claimed_from_its_mark_and_an_idle_one_from_the_start() {
        let (marks, start) = (LowWaterMarks::default(), QueuePosition::START);
        assert_eq!(marks.start(1), start);
        marks.record_full(1, scan(start, 1), &batch(50_000, 900));
        assert_eq!(marks.start(1), start, "one full batch says nothing yet");
        marks.record_full(1, scan(start, 1), &batch(50_000, 900));
        assert_eq!((marks.start(1).due, marks.start(2)), (50_000 - MARK_SLACK_MS, start));
        marks.record_short(1, scan(marks.start(1), 1));
        assert_eq!(marks.start(1), start);
    }

    #[test]
    fn the_closer_jobs_are_to_one_another_the_closer_is_the_mark_to_them() {
        assert_eq!(QueuePosition::before(&batch(50_000, 2)), QueuePosition { due: 50_000 - 200, seq: 0 });
        assert_eq!(QueuePosition::before(&batch(50_000, 0)), QueuePosition { due: 50_000, seq: 100 });
    }

    #[test]
    fn full_batches_do_not_delay_the_next_full_scan() {
        let marks = LowWaterMarks::default();
        marks.record_full(1, scan(QueuePosition::START, 1), &batch(50_000, 900));
        marks.record_full(1, scan(QueuePosition::START, 1), &batch(50_000, 900));
        let scanned = marks.with(|marks| marks[&1].scanned);
        marks.record_full(1, scan(QueuePosition { due: 49_000, seq: 0 }, 1), &batch(60_000, 900));
        assert_eq!(marks.with(|marks| marks[&1].scanned), scanned);
    }
}
