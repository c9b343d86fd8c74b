//! Ending claims: settlements are sorted by what they do, and each kind is one statement.
//!
//! The statements are transactions of their own. One transaction around all of them would hold the locks of
//! the first kind while it asks for those of the next, and two such settlements could wait for each other.

use std::collections::HashMap;

use tidemill_core::clock::millis;
use tidemill_core::job::State;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Record, Verdict, Wake};
use tidemill_core::{DeadLetter, Error};
use tokio_postgres::Row;

use super::number;
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

/// Settlements by what they do, each in the order of its lease's number: the order of the locks.
#[derive(Default)]
struct Kinds<'a> {
    finish: Vec<i64>,
    record: Vec<(i64, &'a Record)>,
    requeue: Vec<(i64, i64, &'a [u8])>,
    bury: Vec<(i64, &'a DeadLetter)>,
}

impl Inner {
    pub(crate) async fn settle(
        &self,
        settlements: &[Settlement],
        ending: Ending,
    ) -> Result<Vec<Verdict>, Error> {
        let mut by_number: Vec<_> =
            settlements.iter().enumerate().map(|(at, s)| (number(&s.lease), at)).collect();
        // Of two settlements of one lease the first counts.
        by_number.sort_unstable();
        by_number.dedup_by_key(|(number, _)| *number);
        let kinds = Kinds::of(by_number.iter().map(|&(number, at)| (number, &settlements[at].change)));
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
            let rows = self.pool.query(&FINISH, &[&kinds.finish, &expired]).await?;
            ended.extend(numbers(&rows));
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

    async fn record(&self, records: &[(i64, &Record)], expired: bool) -> Result<Vec<i64>, Error> {
        let state = |record: &Record| if record.state == State::Cancelled { 4i16 } else { 3i16 };
        let tokens: Vec<i64> = records.iter().map(|(number, _)| *number).collect();
        let states: Vec<i16> = records.iter().map(|(_, record)| state(record)).collect();
        let outputs: Vec<&[u8]> = records.iter().map(|(_, record)| &*record.output).collect();
        let errors: Vec<Option<&[u8]>> =
            records.iter().map(|(_, record)| record.error.as_deref().map(str::as_bytes)).collect();
        let ends: Vec<i64> = records.iter().map(|(_, record)| record.finished_at.0).collect();
        let keeps: Vec<i64> = records.iter().map(|(_, record)| millis(record.keep)).collect();
        let rows =
            self.pool.query(&RECORD, &[&tokens, &expired, &states, &outputs, &errors, &ends, &keeps]).await?;
        Ok(numbers(&rows))
    }

    async fn requeue(&self, jobs: &[(i64, i64, &[u8])], expired: bool) -> Result<Vec<i64>, Error> {
        let tokens: Vec<i64> = jobs.iter().map(|(number, ..)| *number).collect();
        let delays: Vec<i64> = jobs.iter().map(|(_, delay, _)| *delay).collect();
        let envelopes: Vec<&[u8]> = jobs.iter().map(|(.., envelope)| *envelope).collect();
        Ok(numbers(&self.pool.query(&REQUEUE, &[&tokens, &expired, &delays, &envelopes]).await?))
    }

    async fn bury(&self, letters: &[(i64, &DeadLetter)], expired: bool) -> Result<Vec<i64>, Error> {
        let tokens: Vec<i64> = letters.iter().map(|(number, _)| *number).collect();
        let bytes: Vec<&[u8]> = letters.iter().map(|(_, letter)| &*letter.bytes).collect();
        Ok(numbers(&self.pool.query(&BURY, &[&tokens, &expired, &bytes]).await?))
    }

    fn announce_end(&self, Settlement { lease, change }: &Settlement) {
        match change {
            Change::Finish(None) => {}
            Change::Finish(Some(_)) | Change::Bury(_) => self.hub.announce(Wake::Finished(lease.job.clone())),
            Change::Requeue { delay, .. } if delay.is_zero() => {
                self.hub.announce(Wake::Queue(lease.queue.clone()));
            }
            Change::Requeue { .. } => self.hub.announce(Wake::Sooner(lease.queue.clone())),
        }
    }
}

impl<'a> Kinds<'a> {
    fn of(changes: impl Iterator<Item = (i64, &'a Change)>) -> Self {
        let mut kinds = Self::default();
        for (number, change) in changes {
            match change {
                Change::Finish(None) => kinds.finish.push(number),
                Change::Finish(Some(record)) => kinds.record.push((number, record)),
                Change::Requeue { envelope, delay } => kinds.requeue.push((number, millis(*delay), envelope)),
                Change::Bury(letter) => kinds.bury.push((number, letter)),
            }
        }
        kinds
    }
}

fn numbers(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}
