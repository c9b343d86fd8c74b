//! When to poll a queue without a notification: regularly, when its next job is due, and soon after
//! a failed poll.

use super::PollInterval;
use super::poll_interval::FAILED_POLL_DELAY;
use crate::clock::Timestamp;

/// The next poll of one queue. Polls overlap, so each reports how recent it is. An older poll does
/// not override what a newer one found.
#[derive(Debug)]
pub(super) struct PollSchedule {
    interval: PollInterval,
    /// How many regular polls in a row found nothing.
    empty_polls: u32,
    regular: Option<Timestamp>,
    /// When the next job is due, and how recent the poll was that reported it.
    due: Option<Timestamp>,
    due_generation: u64,
    /// When to retry, and how recent a successful poll must be to cancel the retry.
    retry: Option<Timestamp>,
    retry_generation: u64,
}

impl PollSchedule {
    pub(super) fn new(interval: PollInterval) -> Self {
        Self {
            interval,
            empty_polls: 0,
            regular: None,
            due: None,
            due_generation: 0,
            retry: None,
            retry_generation: 0,
        }
    }

    /// When the next poll is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.regular.into_iter().chain(self.due).chain(self.retry).min()
    }

    /// Whether the due time of a scheduled job has passed.
    pub(super) fn is_job_due(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// A scheduled poll has begun. If it is abandoned, its permit passes on.
    pub(super) fn poll_started(&mut self, now: Timestamp) {
        (self.due, self.retry) = (None, None);
        self.reschedule(now);
    }

    /// The queue is active: return to the shortest interval.
    pub(super) fn speed_up(&mut self) {
        self.empty_polls = 0;
    }

    /// A regular poll found nothing: double the interval.
    pub(super) fn slow_down(&mut self) {
        self.empty_polls = self.empty_polls.saturating_add(1);
    }

    /// A poll left work behind. The next poll will report when the next job is due.
    pub(super) fn found_more(&mut self, generation: u64, now: Timestamp) {
        self.speed_up();
        self.succeeded(generation, now);
    }

    /// A poll found nothing before `next`.
    pub(super) fn drained(&mut self, generation: u64, next: Option<Timestamp>, now: Timestamp) {
        if generation >= self.due_generation {
            (self.due, self.due_generation) = (next, generation);
        } else {
            self.due = self.due.into_iter().chain(next).min();
        }
        self.succeeded(generation, now);
    }

    pub(super) fn failed(&mut self, generation: u64, now: Timestamp) {
        (self.retry, self.retry_generation) = (Some(now.after(FAILED_POLL_DELAY)), generation);
    }

    fn succeeded(&mut self, generation: u64, now: Timestamp) {
        if generation >= self.retry_generation {
            self.retry = None;
        }
        self.reschedule(now);
    }

    fn reschedule(&mut self, now: Timestamp) {
        self.regular = self.interval.delay(self.empty_polls).map(|delay| now.after(delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn an_older_look_does_not_undo_what_a_newer_one_has_seen() {
        let mut schedule = PollSchedule::new(PollInterval::NEVER);
        schedule.drained(7, Some(Timestamp(5_000)), NOW);
        schedule.drained(6, None, NOW);
        assert_eq!(schedule.next(), Some(Timestamp(5_000)));
        schedule.drained(6, Some(Timestamp(4_000)), NOW);
        assert_eq!(schedule.next(), Some(Timestamp(4_000)), "what may be there is looked at");
        schedule.drained(7, None, NOW);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn a_failed_look_is_made_up_for_by_a_newer_one_only() {
        let mut schedule = PollSchedule::new(PollInterval::NEVER);
        schedule.failed(7, NOW);
        schedule.drained(6, None, NOW);
        assert_eq!(schedule.next(), Some(NOW.after(FAILED_POLL_DELAY)));
        schedule.drained(7, None, NOW);
        assert_eq!(schedule.next(), None);
    }
}
