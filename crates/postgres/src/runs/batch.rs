//! Several changes of runs in one call, each of which sees those before it.
//!
//! Events are appended together, and so are commits, so a batch is processed in phases:
//! events in even ones, commits in odd ones. A change goes into the first phase after all earlier
//! changes of its run.

use std::collections::HashMap;

use tidemill_core::Error;
use tidemill_core::store::runs::{AfterCommit, CommitParams, Delivery};
use tokio_postgres::types::ToSql;

use super::effects::EffectColumns;
use super::{EventArgs, status_code, to_i64};
use crate::Inner;
use crate::jobs::ms;

/// How the end of a claim changes a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunChange<'a> {
    Commit(&'a CommitParams),
    Deliver(&'a Delivery),
}

/// The code of a commit that ends its run.
const ENDS_RUN: i16 = 2;

/// The parameters of `settle_runs`, except the claims.
#[derive(Default)]
pub(super) struct RunBatch<'a> {
    phases: Phases<'a>,
    last: i32,
    commits: CommitColumns<'a>,
    events: EventColumns<'a>,
    effects: EffectColumns<'a>,
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

#[derive(Default)]
struct CommitColumns<'a> {
    claims: Vec<i32>,
    phases: Vec<i32>,
    runs: Vec<&'a str>,
    ids: Vec<i64>,
    cursors: Vec<i64>,
    uptos: Vec<i64>,
    entries: Vec<&'a [u8]>,
    thens: Vec<i16>,
    results: Vec<&'a [u8]>,
    statuses: Vec<i16>,
    errors: Vec<Option<&'a [u8]>>,
    memories: Vec<Option<i64>>,
}

#[derive(Default)]
struct EventColumns<'a> {
    claims: Vec<i32>,
    commits: Vec<Option<i32>>,
    phases: Vec<i32>,
    runs: Vec<&'a str>,
    kinds: Vec<i16>,
    entries: Vec<&'a [u8]>,
    ids: Vec<Option<&'a [u8]>>,
    seqs: Vec<Option<i64>>,
}

/// Where an event comes from.
struct EventSource {
    claim: i32,
    commit: Option<i32>,
    phase: i32,
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
        self.last = self.last.max(phase);
        let index = self.commits.add(claim, phase, commit);
        if let AfterCommit::Close(close) = &commit.then
            && let Some(notice) = &close.notify_parent
        {
            self.add_event(notice, claim, Some(index), phase + 1);
        }
        self.effects.add(inner, index, &commit.effects).await
    }

    fn add_event(&mut self, delivery: &'a Delivery, claim: i32, commit: Option<i32>, after: i32) {
        let phase = self.phases.next_event(delivery.run.as_str(), after);
        self.last = self.last.max(phase);
        self.events.add(EventArgs::new(delivery), EventSource { claim, commit, phase });
    }

    /// How many runs it ends.
    pub(super) fn count_ends(&self) -> usize {
        self.commits.thens.iter().filter(|then| **then == ENDS_RUN).count()
    }

    /// The parameters in their order, after those that identify the claims.
    pub(super) fn params<'b>(&'b self, claims: [&'b (dyn ToSql + Sync); 3]) -> Vec<&'b (dyn ToSql + Sync)> {
        let mut params = claims.to_vec();
        params.push(&self.last);
        params.extend(self.commits.params());
        params.extend(self.events.params());
        params.extend(self.effects.params());
        params
    }
}

impl<'a> CommitColumns<'a> {
    /// Adds a commit and returns its index, from 1.
    fn add(&mut self, claim: i32, phase: i32, commit: &'a CommitParams) -> i32 {
        let (then, result, status, error): (i16, &[u8], i16, Option<&[u8]>) = match &commit.then {
            AfterCommit::Running => (0, &[], 0, None),
            AfterCommit::ContinueAsNew(restart) => (1, &restart.first, 0, None),
            AfterCommit::Close(close) => (
                ENDS_RUN,
                &close.output,
                status_code(close.status),
                close.error.as_deref().map(str::as_bytes),
            ),
        };
        self.claims.push(claim);
        self.phases.push(phase);
        self.runs.push(commit.run.as_str());
        self.ids.push(to_i64(commit.id.number()));
        self.cursors.push(to_i64(commit.cursor));
        self.uptos.push(to_i64(commit.upto));
        self.entries.push(&commit.entry);
        self.thens.push(then);
        self.results.push(result);
        self.statuses.push(status);
        self.errors.push(error);
        self.memories.push(memory_ms(&commit.then));
        i32::try_from(self.claims.len()).unwrap_or(i32::MAX)
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.claims,
            &self.phases,
            &self.runs,
            &self.ids,
            &self.cursors,
            &self.uptos,
            &self.entries,
            &self.thens,
            &self.results,
            &self.statuses,
            &self.errors,
            &self.memories,
        ]
    }
}

/// How long a run that continues as new remembers its deliveries, in milliseconds.
fn memory_ms(then: &AfterCommit) -> Option<i64> {
    match then {
        AfterCommit::ContinueAsNew(restart) => Some(ms(restart.id_retention)),
        AfterCommit::Running | AfterCommit::Close(_) => None,
    }
}

impl<'a> EventColumns<'a> {
    fn add(&mut self, event: EventArgs<'a>, source: EventSource) {
        self.claims.push(source.claim);
        self.commits.push(source.commit);
        self.phases.push(source.phase);
        self.runs.push(event.run);
        self.kinds.push(event.kind);
        self.entries.push(event.entry);
        self.ids.push(event.id);
        self.seqs.push(event.seq);
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.claims,
            &self.commits,
            &self.phases,
            &self.runs,
            &self.kinds,
            &self.entries,
            &self.ids,
            &self.seqs,
        ]
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
