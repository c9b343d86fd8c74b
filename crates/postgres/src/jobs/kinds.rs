//! Settlements sorted by what they do: each kind is one statement.

use tidemill_core::settle::{Change, NextJob, Settlement};
use tidemill_core::store::JobRecord;
use tidemill_core::{DeadLetter, JobId};

use super::ms;
use crate::runs::Act;

/// What a claim is found by: its number and its chain.
pub(crate) type Key = (i64, JobId);

/// The delay and the envelope of the next attempt.
pub(super) type Again<'a> = (i64, &'a [u8]);

/// Settlements by what they do, each in the order of its lease's number: the order of the locks.
#[derive(Default)]
pub(super) struct Kinds<'a> {
    /// Each with its place among the caller's changes: several may be of one run.
    pub(super) runs: Vec<(Key, (usize, Act<'a>))>,
    pub(super) go_on: Vec<(Key, &'a NextJob)>,
    pub(super) finish: Vec<(Key, ())>,
    pub(super) record: Vec<(Key, &'a JobRecord)>,
    pub(super) requeue: Vec<(Key, Again<'a>)>,
    pub(super) bury: Vec<(Key, &'a DeadLetter)>,
}

impl<'a> Kinds<'a> {
    pub(super) fn of(settlements: impl Iterator<Item = (i64, usize, &'a Settlement)>) -> Self {
        let mut kinds = Self::default();
        for (number, at, Settlement { lease, change }) in settlements {
            let key = (number, lease.job.chain());
            match change {
                Change::Commit(commit) => kinds.runs.push((key, (at, Act::Commit(commit)))),
                Change::Deliver(delivery) => kinds.runs.push((key, (at, Act::Deliver(delivery)))),
                Change::Finish(None) => kinds.finish.push((key, ())),
                Change::Finish(Some(record)) => kinds.record.push((key, record)),
                Change::Requeue { envelope, delay } => kinds.requeue.push((key, (ms(*delay), envelope))),
                Change::Continue(step) => kinds.go_on.push((key, step)),
                Change::Bury(letter) => kinds.bury.push((key, letter)),
            }
        }
        kinds
    }

    /// Each kind that there is by itself.
    pub(super) fn by_kind(self) -> Vec<Self> {
        let Self { runs, go_on, finish, record, requeue, bury } = self;
        let kinds = [
            Self { runs, ..Self::default() },
            Self { go_on, ..Self::default() },
            Self { finish, ..Self::default() },
            Self { record, ..Self::default() },
            Self { requeue, ..Self::default() },
            Self { bury, ..Self::default() },
        ];
        kinds.into_iter().filter(|kind| !kind.is_empty()).collect()
    }

    fn is_empty(&self) -> bool {
        let Self { runs, go_on, finish, record, requeue, bury } = self;
        runs.is_empty()
            && go_on.is_empty()
            && finish.is_empty()
            && record.is_empty()
            && requeue.is_empty()
            && bury.is_empty()
    }

    /// Each claim by itself.
    pub(super) fn one_by_one(self) -> Vec<Self> {
        let runs = self.runs.into_iter().map(|one| Self { runs: vec![one], ..Self::default() });
        let go_on = self.go_on.into_iter().map(|one| Self { go_on: vec![one], ..Self::default() });
        let finish = self.finish.into_iter().map(|one| Self { finish: vec![one], ..Self::default() });
        let record = self.record.into_iter().map(|one| Self { record: vec![one], ..Self::default() });
        let requeue = self.requeue.into_iter().map(|one| Self { requeue: vec![one], ..Self::default() });
        let bury = self.bury.into_iter().map(|one| Self { bury: vec![one], ..Self::default() });
        runs.chain(go_on).chain(finish).chain(record).chain(requeue).chain(bury).collect()
    }
}

pub(crate) fn keys<T>(claims: &[(Key, T)]) -> (Vec<i64>, Vec<&str>) {
    claims.iter().map(|((number, chain), _)| (*number, chain.as_str())).unzip()
}
