//! Several changes of runs in one step, each seeing those before it.
//!
//! Events are appended together, and so are commits written, so a batch takes place in phases: events in even ones,
//! commits in odd ones. A change goes into the first phase that comes after everything earlier of its run.

use std::collections::HashMap;

use tidemill_core::Error;
use tidemill_core::store::runs::{AfterCommit, CommitParams, Delivery};
use tokio_postgres::types::ToSql;

use super::effects::Effects;
use super::{Telling, big, status_code};
use crate::Inner;
use crate::jobs::ms;

/// How the end of a claim changes a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act<'a> {
    Commit(&'a CommitParams),
    Deliver(&'a Delivery),
}

/// What the database calls a commit that ends its run.
const ENDS: i16 = 2;

/// The parameters of `settle_runs` beside the claims.
#[derive(Default)]
pub(super) struct Batch<'a> {
    phases: Phases<'a>,
    last: i32,
    commits: Commits<'a>,
    events: Events<'a>,
    effects: Effects<'a>,
}

/// From which phase on a run can be changed.
#[derive(Default)]
struct Phases<'a>(HashMap<&'a str, i32>);

impl<'a> Phases<'a> {
    /// The phase of an event for the run that comes after `after`.
    fn of_event(&mut self, run: &'a str, after: i32) -> i32 {
        let next = self.0.entry(run).or_default();
        *next = (*next).max(after);
        *next += *next % 2;
        *next
    }

    /// The phase of a commit of the run.
    fn of_commit(&mut self, run: &'a str) -> i32 {
        let next = self.0.entry(run).or_default();
        *next += (*next + 1) % 2;
        *next += 1;
        *next - 1
    }
}

#[derive(Default)]
struct Commits<'a> {
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
struct Events<'a> {
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
struct Source {
    claim: i32,
    commit: Option<i32>,
    phase: i32,
}

impl<'a> Batch<'a> {
    /// Adds what the end of the claim at this place does. Changes are added in the order of the caller's.
    pub(super) async fn add(&mut self, inner: &Inner, claim: i32, act: Act<'a>) -> Result<(), Error> {
        match act {
            Act::Deliver(delivery) => {
                self.tell(delivery, claim, None, 0);
                Ok(())
            }
            Act::Commit(commit) => self.commit(inner, claim, commit).await,
        }
    }

    async fn commit(&mut self, inner: &Inner, claim: i32, commit: &'a CommitParams) -> Result<(), Error> {
        let phase = self.phases.of_commit(commit.run.as_str());
        self.last = self.last.max(phase);
        let place = self.commits.add(claim, phase, commit);
        if let AfterCommit::Close(close) = &commit.then
            && let Some(told) = &close.notify_parent
        {
            self.tell(told, claim, Some(place), phase + 1);
        }
        self.effects.add(inner, place, &commit.effects).await
    }

    fn tell(&mut self, delivery: &'a Delivery, claim: i32, commit: Option<i32>, after: i32) {
        let phase = self.phases.of_event(delivery.run.as_str(), after);
        self.last = self.last.max(phase);
        self.events.add(Telling::of(delivery), Source { claim, commit, phase });
    }

    /// How many runs it ends.
    pub(super) fn ends(&self) -> usize {
        self.commits.thens.iter().filter(|then| **then == ENDS).count()
    }

    /// The parameters in their order, behind those that say which claims end.
    pub(super) fn params<'b>(&'b self, claims: [&'b (dyn ToSql + Sync); 3]) -> Vec<&'b (dyn ToSql + Sync)> {
        let mut params = claims.to_vec();
        params.push(&self.last);
        params.extend(self.commits.params());
        params.extend(self.events.params());
        params.extend(self.effects.params());
        params
    }
}

impl<'a> Commits<'a> {
    /// Adds a commit and returns its place; the first is 1.
    fn add(&mut self, claim: i32, phase: i32, commit: &'a CommitParams) -> i32 {
        let (then, result, status, error): (i16, &[u8], i16, Option<&[u8]>) = match &commit.then {
            AfterCommit::Running => (0, &[], 0, None),
            AfterCommit::ContinueAsNew(restart) => (1, &restart.first, 0, None),
            AfterCommit::Close(close) => {
                (ENDS, &close.output, status_code(close.status), close.error.as_deref().map(str::as_bytes))
            }
        };
        self.claims.push(claim);
        self.phases.push(phase);
        self.runs.push(commit.run.as_str());
        self.ids.push(big(commit.id.number()));
        self.cursors.push(big(commit.cursor));
        self.uptos.push(big(commit.upto));
        self.entries.push(&commit.entry);
        self.thens.push(then);
        self.results.push(result);
        self.statuses.push(status);
        self.errors.push(error);
        self.memories.push(memory(&commit.then));
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

/// For how long a run that begins again remembers what was delivered to it.
fn memory(then: &AfterCommit) -> Option<i64> {
    match then {
        AfterCommit::ContinueAsNew(restart) => Some(ms(restart.id_retention)),
        AfterCommit::Running | AfterCommit::Close(_) => None,
    }
}

impl<'a> Events<'a> {
    fn add(&mut self, event: Telling<'a>, source: Source) {
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
        assert_eq!((phases.of_event("a", 0), phases.of_event("a", 0)), (0, 0));
        assert_eq!((phases.of_commit("a"), phases.of_commit("b")), (1, 1));
        assert_eq!((phases.of_event("a", 0), phases.of_commit("a")), (2, 3));
        assert_eq!((phases.of_event("parent", 2), phases.of_event("parent", 0)), (2, 2));
        assert_eq!((phases.of_commit("parent"), phases.of_commit("parent")), (3, 5));
    }
}
