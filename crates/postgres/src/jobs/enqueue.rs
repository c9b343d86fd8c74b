//! `enqueue`: adds jobs, with one statement per batch.

use std::collections::HashSet;

use tidemill_core::store::{Due, Enqueued, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Clock, Error, Queue, Timestamp, retry};

use super::enqueue_dependent::EnqueueOutcome;
use super::ms;
use super::receipt::{Receipt, enqueue_results};
use crate::Inner;
use crate::connection::Params;
use crate::error::{classify, is_locked, is_unique_violation};
use crate::sql::{DELETE_EXPIRED_RECORDS, ENQUEUE, INSERT};

impl Inner {
    /// Adds jobs, once, and announces them.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        reserved_ids::check_new(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let receipt = Receipt::new(self.pool.clock.now());
        let mut is_retry = false;
        let enqueue = || {
            let attempt =
                EnqueueAttempt { receipt: &receipt, is_retry: std::mem::replace(&mut is_retry, true) };
            self.try_enqueue(queue, jobs, attempt)
        };
        let outcomes = retry::with_receipt(&*self.pool.clock, enqueue).await?.flatten()?;
        for wake in wakes(queue, jobs, &outcomes, self.pool.clock.now()) {
            self.bus.publish_and_flush(wake).await;
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.result).collect())
    }

    /// Adds jobs, unless a call with this receipt has added them. A lock timeout is a result: a
    /// retry would have to wait as long again.
    async fn try_enqueue(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        attempt: EnqueueAttempt<'_>,
    ) -> Result<Result<Vec<EnqueueOutcome>, Error>, Error> {
        let EnqueueAttempt { receipt, is_retry } = attempt;
        if is_retry && let Some(outcomes) = self.find_receipt(receipt, jobs).await? {
            return Ok(Ok(outcomes));
        }
        let outcomes = if jobs.iter().any(|job| !job.links.is_empty()) {
            self.enqueue_dependent(queue, jobs, receipt).await
        } else if jobs.iter().all(is_new) {
            self.insert(queue, jobs, receipt).await
        } else {
            self.insert_missing(queue, jobs, receipt).await
        };
        match outcomes {
            Err(error) if is_locked(&error) => Ok(Err(error)),
            outcomes => outcomes.map(Ok),
        }
    }

    /// Inserts jobs with generated ids. The ids are new, unless the call is repeated.
    async fn insert(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        receipt: &Receipt,
    ) -> Result<Vec<EnqueueOutcome>, Error> {
        let JobColumns { ids, delays, earliest, envelopes } = JobColumns::new(jobs.iter());
        let queue_id = self.queue_id(queue).await?;
        let Receipt { at, call } = receipt;
        let params: Params<'_> = &[&queue_id, &ids, &delays, &earliest, &envelopes, at, call];
        match self.pool.attempt(&INSERT, params).await? {
            Ok(_) => Ok(vec![Enqueued::Created.into(); jobs.len()]),
            Err(error) if is_unique_violation(&error) => match self.find_receipt(receipt, jobs).await? {
                Some(outcomes) => Ok(outcomes),
                None => self.insert_missing(queue, jobs, receipt).await,
            },
            Err(error) => Err(classify(INSERT.name, error)),
        }
    }

    async fn insert_missing(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        receipt: &Receipt,
    ) -> Result<Vec<EnqueueOutcome>, Error> {
        let mut seen = HashSet::new();
        let distinct: Vec<&NewJob> = jobs.iter().filter(|job| seen.insert(job.id.as_str())).collect();
        let JobColumns { ids, delays, earliest, envelopes } = JobColumns::new(distinct.into_iter());
        let queue_id = self.queue_id(queue).await?;
        let Receipt { at, call } = receipt;
        self.pool.query(&DELETE_EXPIRED_RECORDS, &[&ids]).await?;
        let params: Params<'_> = &[&queue_id, &ids, &delays, &earliest, &envelopes, at, call];
        match self.pool.attempt(&ENQUEUE, params).await? {
            Ok(rows) => {
                let results = enqueue_results(jobs, rows.iter().map(|row| row.get("id")));
                Ok(results.into_iter().map(EnqueueOutcome::from).collect())
            }
            Err(error) => self.find_receipt_after(ENQUEUE.name, error, receipt, jobs).await,
        }
    }

    /// Returns the outcome of the first call if the receipt of this retry violated its unique
    /// constraint: the first call was still running.
    pub(super) async fn find_receipt_after(
        &self,
        doing: &str,
        error: tokio_postgres::Error,
        receipt: &Receipt,
        jobs: &[NewJob],
    ) -> Result<Vec<EnqueueOutcome>, Error> {
        let found = if is_unique_violation(&error) { self.find_receipt(receipt, jobs).await? } else { None };
        found.ok_or_else(|| classify(doing, error))
    }
}
/// One attempt of an enqueue.
struct EnqueueAttempt<'a> {
    receipt: &'a Receipt,
    is_retry: bool,
}

/// Whether no other job can have the job's id.
pub(super) fn is_new(job: &NewJob) -> bool {
    job.generated_id || !job.tracked
}

/// The wake-ups for enqueued jobs. Jobs that existed already are announced as well: the call may be
/// the retry of one whose result was lost, and with it the wake-ups.
pub(crate) fn wakes(
    queue: &Queue,
    jobs: &[NewJob],
    outcomes: &[EnqueueOutcome],
    now: Timestamp,
) -> Vec<Wake> {
    let added = |(job, outcome): &(&NewJob, &EnqueueOutcome)| match &outcome.result {
        Enqueued::Created => !outcome.blocked,
        Enqueued::Exists => true,
        Enqueued::Duplicate(other) => *other == job.id,
    };
    let added = jobs.iter().zip(outcomes).filter(added);
    let (due, later): (Vec<_>, Vec<_>) = added.partition(|(job, _)| is_due(job.due, now));
    let mut wakes = Vec::new();
    if !due.is_empty() {
        wakes.push(Wake::Queue { queue: queue.clone(), jobs: due.len() });
    }
    if !later.is_empty() {
        wakes.push(Wake::DueEarlier(queue.clone()));
    }
    wakes
}

fn is_due(due: Due, now: Timestamp) -> bool {
    match due {
        Due::Now => true,
        Due::In(delay) => delay.is_zero(),
        Due::At(time) => time <= now,
    }
}

/// How long the job has to wait, in milliseconds.
pub(crate) fn delay_ms(due: Due) -> i64 {
    if let Due::In(delay) = due { ms(delay) } else { 0 }
}

/// The time before which the job must not run; 0 for none.
pub(crate) fn earliest(due: Due) -> i64 {
    if let Due::At(time) = due { time.0 } else { 0 }
}

/// The columns of jobs: a statement takes one array per column.
pub(crate) struct JobColumns<'a> {
    pub(crate) ids: Vec<&'a str>,
    pub(crate) delays: Vec<i64>,
    pub(crate) earliest: Vec<i64>,
    pub(crate) envelopes: Vec<&'a [u8]>,
}

impl<'a> JobColumns<'a> {
    pub(super) fn new(jobs: impl Iterator<Item = &'a NewJob> + Clone) -> Self {
        Self {
            ids: jobs.clone().map(|job| job.id.as_str()).collect(),
            delays: jobs.clone().map(|job| delay_ms(job.due)).collect(),
            earliest: jobs.clone().map(|job| earliest(job.due)).collect(),
            envelopes: jobs.map(|job| &*job.envelope).collect(),
        }
    }
}
