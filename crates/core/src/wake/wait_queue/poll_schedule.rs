//! When a queue is to be looked at although nobody rings: regularly, when its next job is due, and soon after
//! a look has failed.

use super::PollInterval;
use super::poll_interval::FAILED_POLL_DELAY;
use crate::clock::Timestamp;

/// The next look at one queue. Looks overlap, so each says how new it is, and an older one does not undo what
/// a newer one has found out.
#[derive(Debug)]
pub(super) struct PollSchedule {
    pace: PollInterval,
    /// How many regular looks in a row have found nothing.
    vain: u32,
    regular: Option<Timestamp>,
    /// When the next job is due, and how new the look was that said so.
    due: Option<Timestamp>,
    due_said: u64,
    /// When to try again, and how new a look has to be to count as that.
    retry: Option<Timestamp>,
    retry_since: u64,
}

impl PollSchedule {
    pub(super) fn new(pace: PollInterval) -> Self {
        Self { pace, vain: 0, regular: None, due: None, due_said: 0, retry: None, retry_since: 0 }
    }

    /// When somebody is to look.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.regular.into_iter().chain(self.due).chain(self.retry).min()
    }

    /// Whether a job's time has come.
    pub(super) fn is_job_due(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Somebody looks because it was time. If nothing comes of it, the turn is handed on.
    pub(super) fn poll_started(&mut self, now: Timestamp) {
        (self.due, self.retry) = (None, None);
        self.pause(now);
    }

    /// Something happens here.
    pub(super) fn speed_up(&mut self) {
        self.vain = 0;
    }

    /// A regular look found nothing.
    pub(super) fn slow_down(&mut self) {
        self.vain = self.vain.saturating_add(1);
    }

    /// A look left something behind: whoever looks next will say what is due then.
    pub(super) fn found_more(&mut self, newness: u64, now: Timestamp) {
        self.speed_up();
        self.succeeded(newness, now);
    }

    /// A look saw that there is nothing before `next`.
    pub(super) fn drained(&mut self, newness: u64, next: Option<Timestamp>, now: Timestamp) {
        if newness >= self.due_said {
            (self.due, self.due_said) = (next, newness);
        } else {
            self.due = self.due.into_iter().chain(next).min();
        }
        self.succeeded(newness, now);
    }

    pub(super) fn failed(&mut self, newness: u64, now: Timestamp) {
        (self.retry, self.retry_since) = (Some(now.after(FAILED_POLL_DELAY)), newness);
    }

    fn succeeded(&mut self, newness: u64, now: Timestamp) {
        if newness >= self.retry_since {
            self.retry = None;
        }
        self.pause(now);
    }

    fn pause(&mut self, now: Timestamp) {
        self.regular = self.pace.pause(self.vain).map(|pause| now.after(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn an_older_look_does_not_undo_what_a_newer_one_has_seen() {
        let mut agenda = PollSchedule::new(PollInterval::NEVER);
        agenda.drained(7, Some(Timestamp(5_000)), NOW);
        agenda.drained(6, None, NOW);
        assert_eq!(agenda.next(), Some(Timestamp(5_000)));
        agenda.drained(6, Some(Timestamp(4_000)), NOW);
        assert_eq!(agenda.next(), Some(Timestamp(4_000)), "what may be there is looked at");
        agenda.drained(7, None, NOW);
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn a_failed_look_is_made_up_for_by_a_newer_one_only() {
        let mut agenda = PollSchedule::new(PollInterval::NEVER);
        agenda.failed(7, NOW);
        agenda.drained(6, None, NOW);
        assert_eq!(agenda.next(), Some(NOW.after(FAILED_POLL_DELAY)));
        agenda.drained(7, None, NOW);
        assert_eq!(agenda.next(), None);
    }
}
