//! What will happen, in order.

use std::collections::BTreeMap;

use tidemill_core::workflow::{Json, RunEvent, RunId};

/// Happenings by their time; those of the same time in the order in which they were planned.
#[derive(Default)]
pub(super) struct Agenda {
    due: BTreeMap<(i64, u64), Happening>,
    planned: u64,
}

pub(super) struct Happening {
    pub(super) run: RunId,
    pub(super) what: Due,
}

pub(super) enum Due {
    /// Something comes in.
    Event(RunEvent),
    /// Somebody asks.
    Query(&'static str, Json),
    /// A worker takes its task.
    Task,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: i64, run: &RunId, event: RunEvent) {
        self.plan_any(at, run, Due::Event(event));
    }

    pub(super) fn plan_any(&mut self, at: i64, run: &RunId, what: Due) {
        self.planned += 1;
        self.due.insert((at, self.planned), Happening { run: run.clone(), what });
    }

    pub(super) fn next(&mut self) -> Option<(i64, Happening)> {
        self.due.pop_first().map(|((at, _), happening)| (at, happening))
    }

    /// Whether the next thing happens to `run`.
    pub(super) fn is_next(&self, run: &RunId) -> bool {
        self.due.first_key_value().is_some_and(|(_, happening)| happening.run == *run)
    }

    /// Command `seq` of `run` wants no answer any more.
    pub(super) fn forget(&mut self, run: &RunId, seq: u64) {
        self.due.retain(|_, happening| {
            let answers = match &happening.what {
                Due::Event(RunEvent::ActivityDone { seq, .. } | RunEvent::TimerFired { seq }) => Some(*seq),
                _ => None,
            };
            happening.run != *run || answers != Some(seq)
        });
    }
}
