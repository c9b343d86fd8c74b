//! Ending claims: settlements are sorted by what they do, and each kind is one statement.
//!
//! The statements are transactions of their own. One transaction around all of them would hold the locks of
//! the first kind while it asks for those of the next, and two such settlements could wait for each other.

use std::collections::HashMap;

use tidemill_core::job::State;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Record, Verdict, Wake};
use tidemill_core::{DeadLetter, Error};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{ms, number};
use crate::Inner;
use crate::sql::{BURY, FINISH, RECORD, REQUEUE};

/// Which claims may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Those whose lease is the current one.
    Current,
    /// Of these only those that have run out.
    Expired,
}

/// What a claim is found by: its number and its job.
type Key<'a> = (i64, &'a str);

/// The delay and the envelope of the next attempt.
type Again<'a> = (i64, &'a [u8]);

/// Settlements by what they do, each in the order of its lease's number: the order of the locks.
#[derive(Default)]
struct Kinds<'a> {
    finish: Vec<(Key<'a>, ())>,
    record: Vec<(Key<'a>, &'a Record)>,
    requeue: Vec<(Key<'a>, Again<'a>)>,
    bury: Vec<(Key<'a>, &'a DeadLetter)>,
}

impl Inner {
    pub(crate) async fn settle(
        &self,
        settlements: &[Settlement],
        ending: Ending,
    ) -> Result<Vec<Verdict>, Error> {
        let mut by_number: Vec<_> =
            settlements.iter().enumerate().map(|(at, settlement)| (number(&settlement.lease), at)).collect();
        // Of two settlements of one lease the first counts.
        by_number.sort_unstable();
        by_number.dedup_by_key(|(number, _)| *number);
        let kinds = Kinds::of(by_number.iter().map(|&(number, at)| (number, &settlements[at])));
        let ended = self.end(kinds, ending == Ending::Expired).await?;
        let at: HashMap<i64, usize> = by_number.into_iter().collect();
        let mut verdicts = vec![Verdict::LeaseLost; settlements.len()];
        for at in ended.iter().filter_map(|number| at.get(number)) {
            verdicts[*at] = Verdict::Accepted;
            self.announce_end(&settlements[*at]);
        }
        Ok(verdicts)
    }

    /// Runs one statement per kind; returns the numbers of the claims that ended.
    async fn end(&self, kinds: Kinds<'_>, expired: bool) -> Result<Vec<i64>, Error> {
        let mut ended = Vec::new();
        if !kinds.finish.is_empty() {
            ended.extend(self.finish(&kinds.finish, expired).await?);
        }
        if !kinds.record.is_empty() {
            ended.extend(self.record(&kinds.record, expired).await?);
        }
        if !kinds.requeue.is_empty() {
            ended.extend(self.requeue(&kinds.requeue, expired).await?);
        }
        if !kinds.bury.is_empty() {
            ended.extend(self.bury(&kinds.bury, expired).await?);
        }
        Ok(ended)
    }

    async fn finish(&self, claims: &[(Key<'_>, ())], expired: bool) -> Result<Vec<i64>, Error> {
        let (tokens, ids) = keys(claims);
        Ok(numbers(&self.pool.query(&FINISH, &[&tokens, &ids, &expired]).await?))
    }

    async fn record(&self, claims: &[(Key<'_>, &Record)], expired: bool) -> Result<Vec<i64>, Error> {
        let state = |record: &Record| if record.state == State::Cancelled { 4i16 } else { 3i16 };
        let records = || claims.iter().map(|(_, record)| *record);
        let (tokens, ids) = keys(claims);
        let states: Vec<i16> = records().map(state).collect();
        let outputs: Vec<&[u8]> = records().map(|record| &*record.output).collect();
        let errors: Vec<Option<&[u8]>> =
            records().map(|record| record.error.as_deref().map(str::as_bytes)).collect();
        let ends: Vec<i64> = records().map(|record| record.finished_at.0).collect();
        let keeps: Vec<i64> = records().map(|record| ms(record.keep)).collect();
        let params: [&(dyn ToSql + Sync); 8] =
            [&tokens, &ids, &expired, &states, &outputs, &errors, &ends, &keeps];
        Ok(numbers(&self.pool.query(&RECORD, &params).await?))
    }

    async fn requeue(&self, claims: &[(Key<'_>, Again<'_>)], expired: bool) -> Result<Vec<i64>, Error> {
        let (tokens, ids) = keys(claims);
        let (delays, envelopes): (Vec<i64>, Vec<&[u8]>) = claims.iter().map(|(_, job)| *job).unzip();
        let params: [&(dyn ToSql + Sync); 5] = [&tokens, &ids, &expired, &delays, &envelopes];
        Ok(numbers(&self.pool.query(&REQUEUE, &params).await?))
    }

    async fn bury(&self, claims: &[(Key<'_>, &DeadLetter)], expired: bool) -> Result<Vec<i64>, Error> {
        let (tokens, ids) = keys(claims);
        let letters: Vec<&[u8]> = claims.iter().map(|(_, letter)| &*letter.bytes).collect();
        Ok(numbers(&self.pool.query(&BURY, &[&tokens, &ids, &expired, &letters]).await?))
    }

    fn announce_end(&self, Settlement { lease, change }: &Settlement) {
        match change {
            Change::Finish(None) | Change::Continue(_) => {}
            Change::Finish(Some(_)) | Change::Bury(_) => self.hub.announce(Wake::Finished(lease.job.clone())),
            Change::Requeue { delay, .. } if delay.is_zero() => {
                self.hub.announce(Wake::Queue { queue: lease.queue.clone(), jobs: 1 });
            }
            Change::Requeue { .. } => self.hub.announce(Wake::Sooner(lease.queue.clone())),
        }
    }
}

impl<'a> Kinds<'a> {
    fn of(settlements: impl Iterator<Item = (i64, &'a Settlement)>) -> Self {
        let mut kinds = Self::default();
        for (number, Settlement { lease, change }) in settlements {
            let key = (number, lease.job.as_str());
            match change {
                Change::Finish(None) => kinds.finish.push((key, ())),
                Change::Finish(Some(record)) => kinds.record.push((key, record)),
                Change::Requeue { envelope, delay } => kinds.requeue.push((key, (ms(*delay), envelope))),
                Change::Continue(_) => unimplemented!(),
                Change::Bury(letter) => kinds.bury.push((key, letter)),
            }
        }
        kinds
    }
}

fn keys<'a, T>(claims: &[(Key<'a>, T)]) -> (Vec<i64>, Vec<&'a str>) {
    claims.iter().map(|(key, _)| *key).unzip()
}

fn numbers(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}
