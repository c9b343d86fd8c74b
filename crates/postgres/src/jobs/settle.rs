//! Ending claims: a statement for each kind of settlement.
//!
//! The statements are transactions of their own. One transaction around all of them would hold the locks of
//! the first kind while it asks for those of the next, and two such settlements could wait for each other.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{JobRecord, Verdict};
use tidemill_core::wake::Wake;
use tidemill_core::{DeadLetter, Error};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::complete::{state_code, woken};
use super::kinds::{Again, Key, Kinds, keys};
use super::link::nothing;
use super::{ms, number};
use crate::Inner;
use crate::error::is_locked;
use crate::sql::{BURY, DROP_CANCELLED, FINISH, RECORD, REQUEUE};

/// How many claims are ended at once when each is ended by itself: connections are left for others.
const AT_ONCE: usize = 4;

/// Which claims may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Those whose lease is the current one.
    Current,
    /// Of these only those that have run out.
    Expired,
}

/// The claims that ended, and what is to be announced beside their ends.
#[derive(Default)]
pub(crate) struct Ended {
    tokens: Vec<i64>,
    pub(crate) woken: Vec<String>,
    /// Why one did not end: others have locked it.
    refused: Option<Error>,
}

impl Ended {
    /// Reads the answer of a function that ends claims.
    pub(crate) fn read(rows: &[Row]) -> Result<Self, Error> {
        let row = rows.first().ok_or_else(nothing)?;
        let tokens: Option<Vec<i64>> = row.get("ended");
        Ok(Self { tokens: tokens.unwrap_or_default(), woken: woken(row), refused: None })
    }

    fn of(rows: &[Row]) -> Self {
        Self { tokens: rows.iter().map(|row| row.get(0)).collect(), woken: Vec::new(), refused: None }
    }

    fn add(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.woken.extend(other.woken);
        self.refused = other.refused.or(self.refused.take());
    }
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
        let at: HashMap<i64, usize> = by_number.iter().copied().collect();
        let mut verdicts = vec![Verdict::LeaseLost; settlements.len()];
        if ending == Ending::Current {
            let known = self.halves.take(&mut by_number);
            known.into_iter().for_each(|at| verdicts[at] = Verdict::Accepted);
        }
        let kinds = Kinds::of(by_number.iter().map(|&(number, at)| (number, at, &settlements[at])));
        let Ended { tokens, woken, refused } = self.end(kinds, ending == Ending::Expired).await?;
        for at in tokens.iter().filter_map(|number| at.get(number)) {
            verdicts[*at] = Verdict::Accepted;
            self.announce_end(&settlements[*at]);
        }
        settlements.iter().zip(&verdicts).for_each(|one| self.announce_loss(one, ending));
        self.announce_woken(woken).await;
        match refused {
            // Whoever has locked an expired claim is about to end it.
            Some(error) if ending == Ending::Current => {
                let accepted = at.iter().filter(|(_, at)| verdicts[**at] == Verdict::Accepted);
                self.halves.remember(accepted.map(|(number, _)| *number));
                Err(error)
            }
            _ => Ok(verdicts),
        }
    }

    /// Runs one statement per kind; of a kind in which others have locked something, one per claim, so that this holds
    /// up no more than what is locked.
    async fn end(&self, kinds: Kinds<'_>, expired: bool) -> Result<Ended, Error> {
        let mut ended = Ended::default();
        for kind in kinds.by_kind() {
            match self.end_together(&kind, expired).await {
                Err(error) if is_locked(&error) => ended.add(self.end_apart(kind, error, expired).await?),
                answer => ended.add(answer?),
            }
        }
        Ok(ended)
    }

    async fn end_apart(&self, kind: Kinds<'_>, error: Error, expired: bool) -> Result<Ended, Error> {
        let claims = kind.one_by_one();
        if claims.len() < 2 {
            return Ok(Ended { refused: Some(error), ..Ended::default() });
        }
        let mut ended = Ended::default();
        for some in claims.chunks(AT_ONCE) {
            for answer in join_all(some.iter().map(|claim| self.end_together(claim, expired))).await {
                match answer {
                    Err(error) if is_locked(&error) => ended.refused = Some(error),
                    answer => ended.add(answer?),
                }
            }
        }
        Ok(ended)
    }

    async fn end_together(&self, kinds: &Kinds<'_>, expired: bool) -> Result<Ended, Error> {
        let mut ended = Ended::default();
        if !kinds.runs.is_empty() {
            ended.add(self.settle_runs(&kinds.runs, expired).await?);
        }
        if !kinds.go_on.is_empty() {
            ended.add(self.proceed(&kinds.go_on, expired).await?);
        }
        if !kinds.finish.is_empty() {
            ended.add(self.finish(&kinds.finish, expired).await?);
        }
        if !kinds.record.is_empty() {
            ended.add(self.record(&kinds.record, expired).await?);
        }
        if !kinds.requeue.is_empty() {
            ended.add(self.requeue(&kinds.requeue, expired).await?);
        }
        if !kinds.bury.is_empty() {
            ended.add(self.bury(&kinds.bury, expired).await?);
        }
        Ok(ended)
    }

    async fn finish(&self, claims: &[(Key, ())], expired: bool) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        Ok(Ended::of(&self.pool.query(&FINISH, &[&tokens, &ids, &expired]).await?))
    }

    async fn record(&self, claims: &[(Key, &JobRecord)], expired: bool) -> Result<Ended, Error> {
        let records = || claims.iter().map(|(_, record)| *record);
        let (tokens, ids) = keys(claims);
        let states: Vec<i16> = records().map(|record| state_code(record.state)).collect();
        let outputs: Vec<&[u8]> = records().map(|record| &*record.output).collect();
        let errors: Vec<Option<&[u8]>> =
            records().map(|record| record.error.as_deref().map(str::as_bytes)).collect();
        let ends: Vec<i64> = records().map(|record| record.finished_at.0).collect();
        let keeps: Vec<i64> = records().map(|record| ms(record.keep)).collect();
        let params: [&(dyn ToSql + Sync); 8] =
            [&tokens, &ids, &expired, &states, &outputs, &errors, &ends, &keeps];
        Ended::read(&self.pool.query(&RECORD, &params).await?)
    }

    /// Puts jobs back, and removes those that are to be cancelled instead.
    async fn requeue(&self, claims: &[(Key, Again<'_>)], expired: bool) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        let (delays, envelopes): (Vec<i64>, Vec<&[u8]>) = claims.iter().map(|(_, job)| *job).unzip();
        let params: [&(dyn ToSql + Sync); 5] = [&tokens, &ids, &expired, &delays, &envelopes];
        let mut ended = Ended::of(&self.pool.query(&REQUEUE, &params).await?);
        if ended.tokens.len() < claims.len() {
            let back: HashSet<i64> = ended.tokens.iter().copied().collect();
            let left = tokens.into_iter().zip(ids).filter(|(token, _)| !back.contains(token));
            let (tokens, ids): (Vec<i64>, Vec<&str>) = left.unzip();
            match self.pool.query(&DROP_CANCELLED, &[&tokens, &ids, &expired]).await {
                // What has been put back is not to be forgotten for it.
                Err(error) if is_locked(&error) && !ended.tokens.is_empty() => ended.refused = Some(error),
                rows => ended.add(Ended::read(&rows?)?),
            }
        }
        Ok(ended)
    }

    async fn bury(&self, claims: &[(Key, &DeadLetter)], expired: bool) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        let letters: Vec<&[u8]> = claims.iter().map(|(_, letter)| &*letter.bytes).collect();
        Ok(Ended::of(&self.pool.query(&BURY, &[&tokens, &ids, &expired, &letters]).await?))
    }

    fn announce_end(&self, Settlement { lease, change }: &Settlement) {
        match change {
            Change::Finish(None) | Change::Continue(_) | Change::Commit(_) | Change::Deliver(_) => {}
            Change::Finish(Some(_)) | Change::Bury(_) => {
                self.bus.publish(Wake::Finished(lease.job.chain()));
            }
            Change::Requeue { delay, .. } if delay.is_zero() => {
                self.bus.publish(Wake::Queue { queue: lease.queue.clone(), jobs: 1 });
            }
            Change::Requeue { .. } => self.bus.publish(Wake::DueEarlier(lease.queue.clone())),
        }
    }

    /// Announces that a worker has lost a job to a rescuer. And what has not been settled: that may be the repeat of a
    /// settlement whose answer was lost, and with it the announcement.
    fn announce_loss(&self, (settlement, verdict): (&Settlement, &Verdict), ending: Ending) {
        let Settlement { lease, change } = settlement;
        match (ending, verdict) {
            (Ending::Expired, Verdict::Accepted) => {
                self.bus.publish(Wake::LeaseLost(lease.job.clone()));
                if matches!(change, Change::Finish(None)) {
                    self.bus.publish(Wake::Finished(lease.job.chain()));
                }
            }
            (Ending::Current, Verdict::LeaseLost) => match change {
                Change::Continue(_) | Change::Commit(_) | Change::Deliver(_) => {
                    self.bus.publish(Wake::Everything);
                }
                _ => self.announce_end(settlement),
            },
            _ => {}
        }
    }

    /// Announces that there may be anything to look for if nobody knows whether a call had its effect. Not for calls that
    /// are made because of such an announcement: while the server is away they would go round in circles.
    pub(crate) fn announce_unknown<T>(&self, answer: &Result<T, Error>) {
        if let Err(Error::Unanswered { .. }) = answer {
            self.bus.publish(Wake::Everything);
        }
    }

    /// Announces what functions have woken, and does what one could not do where it was called.
    pub(crate) async fn announce_woken(&self, woken: Vec<String>) {
        let mut owed = false;
        for word in woken {
            match word.parse() {
                Ok(wake) => self.bus.publish(wake),
                Err(_) => owed = true,
            }
        }
        if owed {
            self.release_owed().await;
        }
    }
}
