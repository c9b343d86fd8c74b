//! Settlements grouped by what they do: each group is one statement.

use tidemill_core::settle::{Change, NextJob, Settlement};
use tidemill_core::store::JobRecord;
use tidemill_core::{DeadLetter, JobId};

use super::ms;
use crate::runs::RunChange;

/// Identifies a claim: its number and its chain.
pub(crate) type ClaimKey = (i64, JobId);

/// The delay and the envelope of the next attempt.
pub(super) type NextAttempt<'a> = (i64, &'a [u8]);

/// Settlements grouped by what they do, each sorted by the number of its lease: the order of the
/// locks.
#[derive(Default)]
pub(super) struct GroupedSettlements<'a> {
    /// Each with its index among the caller's changes, because several may concern one run.
    pub(super) runs: Vec<(ClaimKey, (usize, RunChange<'a>))>,
    pub(super) continue_chain: Vec<(ClaimKey, &'a NextJob)>,
    pub(super) finish: Vec<(ClaimKey, ())>,
    pub(super) record: Vec<(ClaimKey, &'a JobRecord)>,
    pub(super) requeue: Vec<(ClaimKey, NextAttempt<'a>)>,
    pub(super) bury: Vec<(ClaimKey, &'a DeadLetter)>,
}

impl<'a> GroupedSettlements<'a> {
    pub(super) fn new(settlements: impl Iterator<Item = (i64, usize, &'a Settlement)>) -> Self {
        let mut grouped = Self::default();
        for (number, at, Settlement { lease, change }) in settlements {
            let key = (number, lease.job.chain());
            match change {
                Change::Commit(commit) => grouped.runs.push((key, (at, RunChange::Commit(commit)))),
                Change::Deliver(delivery) => grouped.runs.push((key, (at, RunChange::Deliver(delivery)))),
                Change::Finish(None) => grouped.finish.push((key, ())),
                Change::Finish(Some(record)) => grouped.record.push((key, record)),
                Change::Requeue { envelope, delay } => grouped.requeue.push((key, (ms(*delay), envelope))),
                Change::Continue(step) => grouped.continue_chain.push((key, step)),
                Change::Bury(letter) => grouped.bury.push((key, letter)),
            }
        }
        grouped
    }

    /// Splits it into its non-empty groups.
    pub(super) fn into_groups(self) -> Vec<Self> {
        let Self { runs, continue_chain, finish, record, requeue, bury } = self;
        let groups = [
            Self { runs, ..Self::default() },
            Self { continue_chain, ..Self::default() },
            Self { finish, ..Self::default() },
            Self { record, ..Self::default() },
            Self { requeue, ..Self::default() },
            Self { bury, ..Self::default() },
        ];
        groups.into_iter().filter(|group| !group.is_empty()).collect()
    }

    fn is_empty(&self) -> bool {
        let Self { runs, continue_chain, finish, record, requeue, bury } = self;
        runs.is_empty()
            && continue_chain.is_empty()
            && finish.is_empty()
            && record.is_empty()
            && requeue.is_empty()
            && bury.is_empty()
    }

    /// Splits it into single claims.
    pub(super) fn into_claims(self) -> Vec<Self> {
        let runs = self.runs.into_iter().map(|one| Self { runs: vec![one], ..Self::default() });
        let continue_chain =
            self.continue_chain.into_iter().map(|one| Self { continue_chain: vec![one], ..Self::default() });
        let finish = self.finish.into_iter().map(|one| Self { finish: vec![one], ..Self::default() });
        let record = self.record.into_iter().map(|one| Self { record: vec![one], ..Self::default() });
        let requeue = self.requeue.into_iter().map(|one| Self { requeue: vec![one], ..Self::default() });
        let bury = self.bury.into_iter().map(|one| Self { bury: vec![one], ..Self::default() });
        runs.chain(continue_chain).chain(finish).chain(record).chain(requeue).chain(bury).collect()
    }
}

pub(crate) fn keys<T>(claims: &[(ClaimKey, T)]) -> (Vec<i64>, Vec<&str>) {
    claims.iter().map(|((number, chain), _)| (*number, chain.as_str())).unzip()
}
