//! Adding jobs: one statement per batch.

use std::collections::HashSet;

use tidemill_core::store::{Due, Enqueued, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Clock, Error, Queue, Timestamp, retry};

use super::link::Made;
use super::ms;
use super::receipt::{Receipt, answers};
use crate::Inner;
use crate::connection::Params;
use crate::error::{classify, is_locked, is_taken};
use crate::sql::{ENQUEUE, FORGET, INSERT};

impl Inner {
    /// Adds jobs, once, and announces them.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        reserved_ids::check_new(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let receipt = Receipt::new(self.pool.clock.now());
        let mut again = false;
        let enqueue = || self.try_enqueue(queue, jobs, (&receipt, std::mem::replace(&mut again, true)));
        let made = retry::with_receipt(&self.pool.clock, enqueue).await?.flatten()?;
        for wake in wakes(queue, jobs, &made, self.pool.clock.now()) {
            self.bus.publish_and_flush(wake).await;
        }
        Ok(made.into_iter().map(|made| made.answer).collect())
    }

    /// Adds jobs, unless a call with this receipt has. What others have locked is an answer: a repeat would have to wait
    /// as long again.
    async fn try_enqueue(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        (receipt, again): (&Receipt, bool),
    ) -> Result<Result<Vec<Made>, Error>, Error> {
        if again && let Some(made) = self.find_receipt(receipt, jobs).await? {
            return Ok(Ok(made));
        }
        let made = if jobs.iter().any(|job| !job.links.is_empty()) {
            self.link(queue, jobs, receipt).await
        } else if jobs.iter().all(is_new) {
            self.insert(queue, jobs, receipt).await
        } else {
            self.insert_missing(queue, jobs, receipt).await
        };
        match made {
            Err(error) if is_locked(&error) => Ok(Err(error)),
            made => made.map(Ok),
        }
    }

    /// Ids that were made for the call are new, unless the call is repeated.
    async fn insert(&self, queue: &Queue, jobs: &[NewJob], receipt: &Receipt) -> Result<Vec<Made>, Error> {
        let Columns { ids, delays, earliest, envelopes } = Columns::of(jobs.iter());
        let number = self.number(queue).await?;
        let Receipt { at, call } = receipt;
        let params: Params<'_> = &[&number, &ids, &delays, &earliest, &envelopes, at, call];
        match self.pool.attempt(&INSERT, params).await? {
            Ok(_) => Ok(vec![Enqueued::Created.into(); jobs.len()]),
            Err(error) if is_taken(&error) => match self.find_receipt(receipt, jobs).await? {
                Some(made) => Ok(made),
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
    ) -> Result<Vec<Made>, Error> {
        let mut seen = HashSet::new();
        let distinct: Vec<&NewJob> = jobs.iter().filter(|job| seen.insert(job.id.as_str())).collect();
        let Columns { ids, delays, earliest, envelopes } = Columns::of(distinct.into_iter());
        let number = self.number(queue).await?;
        let Receipt { at, call } = receipt;
        self.pool.query(&FORGET, &[&ids]).await?;
        let params: Params<'_> = &[&number, &ids, &delays, &earliest, &envelopes, at, call];
        match self.pool.attempt(&ENQUEUE, params).await? {
            Ok(rows) => {
                let answers = answers(jobs, rows.iter().map(|row| row.get("id")));
                Ok(answers.into_iter().map(Made::from).collect())
            }
            Err(error) => self.refused_receipt(ENQUEUE.name, error, (receipt, jobs)).await,
        }
    }

    /// The answer of a call that was under way when it was repeated: then the repeat is refused its receipt.
    pub(super) async fn refused_receipt(
        &self,
        doing: &str,
        error: tokio_postgres::Error,
        (receipt, jobs): (&Receipt, &[NewJob]),
    ) -> Result<Vec<Made>, Error> {
        let found = if is_taken(&error) { self.find_receipt(receipt, jobs).await? } else { None };
        found.ok_or_else(|| classify(doing, error))
    }
}

/// Whether nothing else can have the job's id.
pub(super) fn is_new(job: &NewJob) -> bool {
    job.generated_id || !job.tracked
}

/// What is to be announced of jobs that were added. A job that was there already is announced as well: the call may be a
/// repeat of one whose answer was lost, and with it the announcement.
pub(crate) fn wakes(queue: &Queue, jobs: &[NewJob], made: &[Made], now: Timestamp) -> Vec<Wake> {
    let added = |(job, made): &(&NewJob, &Made)| match &made.answer {
        Enqueued::Created => !made.blocked,
        Enqueued::Exists => true,
        Enqueued::Duplicate(other) => *other == job.id,
    };
    let added = jobs.iter().zip(made).filter(added);
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

/// How long the job has to wait, in ms.
pub(crate) fn delay(due: Due) -> i64 {
    if let Due::In(delay) = due { ms(delay) } else { 0 }
}

/// Before when the job must not run; 0 for no such time.
pub(crate) fn earliest(due: Due) -> i64 {
    if let Due::At(time) = due { time.0 } else { 0 }
}

/// The jobs turned on their side: a statement takes one array per column.
pub(crate) struct Columns<'a> {
    pub(crate) ids: Vec<&'a str>,
    pub(crate) delays: Vec<i64>,
    pub(crate) earliest: Vec<i64>,
    pub(crate) envelopes: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(jobs: impl Iterator<Item = &'a NewJob> + Clone) -> Self {
        Self {
            ids: jobs.clone().map(|job| job.id.as_str()).collect(),
            delays: jobs.clone().map(|job| delay(job.due)).collect(),
            earliest: jobs.clone().map(|job| earliest(job.due)).collect(),
            envelopes: jobs.map(|job| &*job.envelope).collect(),
        }
    }
}
