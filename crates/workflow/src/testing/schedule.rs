//! The schedule of a simulation.

use std::collections::BTreeMap;

use tidemill_core::workflow::{Json, RunEvent, RunId};

/// Actions by time, then by the order in which they were added.
#[derive(Default)]
pub(super) struct Schedule {
    items: BTreeMap<(i64, u64), Scheduled>,
    added: u64,
}

pub(super) struct Scheduled {
    pub(super) run: RunId,
    pub(super) action: ScheduledAction,
}

pub(super) enum ScheduledAction {
    /// An event arrives.
    Event(RunEvent),
    /// A query arrives.
    Query(&'static str, Json),
    /// A worker runs its task.
    Task,
}

impl Schedule {
    pub(super) fn add_event(&mut self, at: i64, run: &RunId, event: RunEvent) {
        self.add(at, run, ScheduledAction::Event(event));
    }

    pub(super) fn add(&mut self, at: i64, run: &RunId, what: ScheduledAction) {
        self.added += 1;
        self.items.insert((at, self.added), Scheduled { run: run.clone(), action: what });
    }

    pub(super) fn next(&mut self) -> Option<(i64, Scheduled)> {
        self.items.pop_first().map(|((at, _), scheduled)| (at, scheduled))
    }

    /// Whether the next action belongs to `run`.
    pub(super) fn is_next_for(&self, run: &RunId) -> bool {
        self.items.first_key_value().is_some_and(|(_, scheduled)| scheduled.run == *run)
    }

    /// Removes the result of command `seq` of `run`.
    pub(super) fn cancel(&mut self, run: &RunId, seq: u64) {
        self.items.retain(|_, scheduled| {
            let answered = match &scheduled.action {
                ScheduledAction::Event(RunEvent::ActivityDone { seq, .. } | RunEvent::TimerFired { seq }) => {
                    Some(*seq)
                }
                _ => None,
            };
            scheduled.run != *run || answered != Some(seq)
        });
    }
}
