//! `settle`: ends claims, with one statement for each group of settlements.
//!
//! Each statement is a transaction of its own. One transaction around all of them would hold the
//! locks of the first group while it requests those of the next, and two such settlements could
//! deadlock.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Fence, JobRecord, SettleParams, Verdict};
use tidemill_core::wake::Wake;
use tidemill_core::{DeadLetter, Error};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::complete::{state_code, wake_texts};
use super::enqueue_dependent::no_rows;
use super::grouped::{ClaimKey, GroupedSettlements, NextAttempt, keys};
use super::{ms, number};
use crate::Inner;
use crate::error::is_locked;
use crate::sql::{BURY, DROP_CANCELLED, FINISH, RECORD, REQUEUE};

/// How many claims are ended concurrently when each has its own statement. The other connections
/// stay available.
const MAX_CONCURRENT_CLAIMS: usize = 4;

/// The claims that ended, and the wake-ups in addition to those of their ends.
#[derive(Default)]
pub(crate) struct SettledClaims {
    tokens: Vec<i64>,
    pub(crate) wake_texts: Vec<String>,
    /// Set if another transaction had locked a claim, which therefore did not end.
    locked: Option<Error>,
}

impl SettledClaims {
    /// Reads the result of a function that ends claims.
    pub(crate) fn from_function(rows: &[Row]) -> Result<Self, Error> {
        let row = rows.first().ok_or_else(no_rows)?;
        let tokens: Option<Vec<i64>> = row.get("ended");
        Ok(Self { tokens: tokens.unwrap_or_default(), wake_texts: wake_texts(row), locked: None })
    }

    fn from_tokens(rows: &[Row]) -> Self {
        Self { tokens: rows.iter().map(|row| row.get(0)).collect(), wake_texts: Vec::new(), locked: None }
    }

    fn add(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
        self.wake_texts.extend(other.wake_texts);
        self.locked = other.locked.or(self.locked.take());
    }
}

impl Inner {
    pub(crate) async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        let SettleParams { settlements, fence } = settle;
        let mut by_number: Vec<_> =
            settlements.iter().enumerate().map(|(at, settlement)| (number(&settlement.lease), at)).collect();
        // Of two settlements of one lease the first counts.
        by_number.sort_unstable();
        by_number.dedup_by_key(|(number, _)| *number);
        let at: HashMap<i64, usize> = by_number.iter().copied().collect();
        let mut verdicts = vec![Verdict::LeaseLost; settlements.len()];
        if fence == Fence::Current {
            let known = self.partial_settles.take(&mut by_number);
            known.into_iter().for_each(|at| verdicts[at] = Verdict::Accepted);
        }
        let grouped =
            GroupedSettlements::new(by_number.iter().map(|&(number, at)| (number, at, &settlements[at])));
        let settled = self.settle_groups(grouped, fence == Fence::Expired).await?;
        let SettledClaims { tokens, wake_texts, locked } = settled;
        for at in tokens.iter().filter_map(|number| at.get(number)) {
            verdicts[*at] = Verdict::Accepted;
            self.announce_end(&settlements[*at]);
        }
        settlements
            .iter()
            .zip(&verdicts)
            .for_each(|(settlement, verdict)| self.announce_loss(settlement, *verdict, fence));
        self.announce_texts(wake_texts).await;
        match locked {
            // The transaction that has locked an expired claim is about to end it.
            Some(error) if fence == Fence::Current => {
                let accepted = at.iter().filter(|(_, at)| verdicts[**at] == Verdict::Accepted);
                self.partial_settles.remember(accepted.map(|(number, _)| *number));
                Err(error)
            }
            _ => Ok(verdicts),
        }
    }

    /// Runs one statement per group. If another transaction has locked a claim of a group, it runs
    /// one statement per claim, so that only the locked claims wait.
    async fn settle_groups(
        &self,
        grouped: GroupedSettlements<'_>,
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let mut settled = SettledClaims::default();
        for group in grouped.into_groups() {
            match self.settle_group(&group, expired).await {
                Err(error) if is_locked(&error) => {
                    settled.add(self.settle_singly(group, error, expired).await?)
                }
                result => settled.add(result?),
            }
        }
        Ok(settled)
    }

    async fn settle_singly(
        &self,
        group: GroupedSettlements<'_>,
        error: Error,
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let claims = group.into_claims();
        if claims.len() < 2 {
            return Ok(SettledClaims { locked: Some(error), ..SettledClaims::default() });
        }
        let mut settled = SettledClaims::default();
        for some in claims.chunks(MAX_CONCURRENT_CLAIMS) {
            for result in join_all(some.iter().map(|claim| self.settle_group(claim, expired))).await {
                match result {
                    Err(error) if is_locked(&error) => settled.locked = Some(error),
                    result => settled.add(result?),
                }
            }
        }
        Ok(settled)
    }

    async fn settle_group(
        &self,
        group: &GroupedSettlements<'_>,
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let mut settled = SettledClaims::default();
        if !group.runs.is_empty() {
            settled.add(self.settle_runs(&group.runs, expired).await?);
        }
        if !group.continue_chain.is_empty() {
            settled.add(self.continue_chains(&group.continue_chain, expired).await?);
        }
        if !group.finish.is_empty() {
            settled.add(self.finish(&group.finish, expired).await?);
        }
        if !group.record.is_empty() {
            settled.add(self.record(&group.record, expired).await?);
        }
        if !group.requeue.is_empty() {
            settled.add(self.requeue(&group.requeue, expired).await?);
        }
        if !group.bury.is_empty() {
            settled.add(self.bury(&group.bury, expired).await?);
        }
        Ok(settled)
    }

    async fn finish(&self, claims: &[(ClaimKey, ())], expired: bool) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        Ok(SettledClaims::from_tokens(&self.pool.query(&FINISH, &[&tokens, &ids, &expired]).await?))
    }

    async fn record(&self, claims: &[(ClaimKey, &JobRecord)], expired: bool) -> Result<SettledClaims, Error> {
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
        SettledClaims::from_function(&self.pool.query(&RECORD, &params).await?)
    }

    /// Puts jobs back, and removes those that are to be cancelled instead.
    async fn requeue(
        &self,
        claims: &[(ClaimKey, NextAttempt<'_>)],
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        let (delays, envelopes): (Vec<i64>, Vec<&[u8]>) = claims.iter().map(|(_, job)| *job).unzip();
        let params: [&(dyn ToSql + Sync); 5] = [&tokens, &ids, &expired, &delays, &envelopes];
        let mut settled = SettledClaims::from_tokens(&self.pool.query(&REQUEUE, &params).await?);
        if settled.tokens.len() < claims.len() {
            let requeued: HashSet<i64> = settled.tokens.iter().copied().collect();
            let left = tokens.into_iter().zip(ids).filter(|(token, _)| !requeued.contains(token));
            let (tokens, ids): (Vec<i64>, Vec<&str>) = left.unzip();
            match self.pool.query(&DROP_CANCELLED, &[&tokens, &ids, &expired]).await {
                // The jobs that were put back count as settled all the same.
                Err(error) if is_locked(&error) && !settled.tokens.is_empty() => settled.locked = Some(error),
                rows => settled.add(SettledClaims::from_function(&rows?)?),
            }
        }
        Ok(settled)
    }

    async fn bury(&self, claims: &[(ClaimKey, &DeadLetter)], expired: bool) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        let letters: Vec<&[u8]> = claims.iter().map(|(_, letter)| &*letter.bytes).collect();
        Ok(SettledClaims::from_tokens(&self.pool.query(&BURY, &[&tokens, &ids, &expired, &letters]).await?))
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

    /// Announces that a worker has lost a job to a rescuer. A rejected settlement is announced too:
    /// it may be the retry of one whose result was lost, and with it the wake-ups.
    fn announce_loss(&self, settlement: &Settlement, verdict: Verdict, fence: Fence) {
        let Settlement { lease, change } = settlement;
        match (fence, verdict) {
            (Fence::Expired, Verdict::Accepted) => {
                self.bus.publish(Wake::LeaseLost(lease.job.clone()));
                if matches!(change, Change::Finish(None)) {
                    self.bus.publish(Wake::Finished(lease.job.chain()));
                }
            }
            (Fence::Current, Verdict::LeaseLost) => match change {
                Change::Continue(_) | Change::Commit(_) | Change::Deliver(_) => {
                    self.bus.publish(Wake::Everything);
                }
                _ => self.announce_end(settlement),
            },
            _ => {}
        }
    }

    /// Wakes all waiters if it is unknown whether a call had its effect. Calls that waiters
    /// make after such a wake-up must not use this: while the server is down they would wake each
    /// other for ever.
    pub(crate) fn announce_unknown<T>(&self, answer: &Result<T, Error>) {
        if let Err(Error::Unanswered { .. }) = answer {
            self.bus.publish(Wake::Everything);
        }
    }

    /// Publishes the wake-ups that functions have returned. `owed` among them means that jobs are
    /// still to be unblocked.
    pub(crate) async fn announce_texts(&self, texts: Vec<String>) {
        let mut owed = false;
        for text in texts {
            match text.parse() {
                Ok(wake) => self.bus.publish(wake),
                Err(_) => owed = true,
            }
        }
        if owed {
            self.release_owed().await;
        }
    }
}
