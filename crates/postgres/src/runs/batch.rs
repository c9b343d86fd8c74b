//! Several changes of runs in one call, each of which sees those before it.
//!
//! Events are appended together, and so are commits, so a batch is processed in phases:
//! events in even ones, commits in odd ones. A change goes into the first phase after all earlier
//! changes of its run.

use std::collections::HashMap;

use tidemill_core::Error;
use tidemill_core::store::runs::{AfterCommit, CommitParams, Delivery};

use super::effects::EffectRows;
use super::rows::{CommitRow, EventRow};
use crate::Inner;

/// How the end of a claim changes a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunChange<'a> {
    Commit(&'a CommitParams),
    Deliver(&'a Delivery),
}

/// The changes of runs in one call of `settle_runs`.
#[derive(Default)]
pub(super) struct RunBatch<'a> {
    phases: Phases<'a>,
    pub(super) commits: Vec<CommitRow<'a>>,
    pub(super) events: Vec<EventRow<'a>>,
    pub(super) effects: EffectRows<'a>,
}

/// The next phase in which a run can be changed.
#[derive(Default)]
struct Phases<'a>(HashMap<&'a str, i32>);

impl<'a> Phases<'a> {
    /// The phase of an event for the run, at `after` or later.
    fn next_event(&mut self, run: &'a str, after: i32) -> i32 {
        let next = self.0.entry(run).or_default();
        *next = (*next).max(after);
        *next += *next % 2;
        *next
    }

    /// The phase of a commit of the run.
    fn next_commit(&mut self, run: &'a str) -> i32 {
        let next = self.0.entry(run).or_default();
        *next += (*next + 1) % 2;
        *next += 1;
        *next - 1
    }
}

impl<'a> RunBatch<'a> {
    /// Adds the change of the claim with this index, from 1. Changes are added in the caller's
    /// order.
    pub(super) async fn add(
        &mut self,
        inner: &Inner,
        claim: i32,
        change: RunChange<'a>,
    ) -> Result<(), Error> {
        match change {
            RunChange::Deliver(delivery) => {
                self.add_event(delivery, claim, None, 0);
                Ok(())
            }
            RunChange::Commit(commit) => self.add_commit(inner, claim, commit).await,
        }
    }

    async fn add_commit(&mut self, inner: &Inner, claim: i32, commit: &'a CommitParams) -> Result<(), Error> {
        let phase = self.phases.next_commit(commit.run.as_str());
        let number = i32::try_from(self.commits.len() + 1).unwrap_or(i32::MAX);
        self.commits.push(CommitRow { number, claim, phase, ..CommitRow::new(commit) });
        if let AfterCommit::Close(close) = &commit.then
            && let Some(notice) = &close.notify_parent
        {
            self.add_event(notice, claim, Some(number), phase + 1);
        }
        self.effects.add(inner, number, &commit.effects).await
    }

    fn add_event(&mut self, delivery: &'a Delivery, claim: i32, commit: Option<i32>, after: i32) {
        let phase = self.phases.next_event(delivery.run.as_str(), after);
        self.events.push(EventRow { claim, commit, phase, ..EventRow::new(delivery) });
    }

    /// How many runs it ends.
    pub(super) fn count_ends(&self) -> usize {
        self.commits.iter().filter(|commit| commit.ends_run()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_comes_after_everything_earlier_of_its_run() {
        let mut phases = Phases::default();
        assert_eq!((phases.next_event("a", 0), phases.next_event("a", 0)), (0, 0));
        assert_eq!((phases.next_commit("a"), phases.next_commit("b")), (1, 1));
        assert_eq!((phases.next_event("a", 0), phases.next_commit("a")), (2, 3));
        assert_eq!((phases.next_event("parent", 2), phases.next_event("parent", 0)), (2, 2));
        assert_eq!((phases.next_commit("parent"), phases.next_commit("parent")), (3, 5));
    }
}
