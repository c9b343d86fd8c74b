//! Adding jobs: one statement per batch.

use std::collections::HashSet;

use tidemill_core::store::{Due, Enqueued, NewJob, Wake, guard};
use tidemill_core::{Clock, Error, Queue, Timestamp};

use super::link::Made;
use super::ms;
use crate::Inner;
use crate::error::{classify, is_taken};
use crate::sql::{ENQUEUE, FORGET, INSERT};

impl Inner {
    /// Adds jobs and announces them.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        guard::check_new(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let made = if jobs.iter().any(|job| !job.links.is_empty()) {
            self.link(queue, jobs).await?
        } else if jobs.iter().all(|job| job.fresh || !job.tracked) {
            self.insert(queue, jobs).await?.into_iter().map(Made::from).collect()
        } else {
            self.insert_missing(queue, jobs).await?.into_iter().map(Made::from).collect()
        };
        for wake in wakes(queue, jobs, &made, self.pool.clock.now()) {
            self.hub.announce_surely(wake).await;
        }
        Ok(made.into_iter().map(|made| made.answer).collect())
    }

    /// Ids that were made for the call are new, unless the call is repeated.
    async fn insert(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        let Columns { ids, delays, earliest, envelopes } = Columns::of(jobs.iter());
        let number = self.number(queue).await?;
        let answer = self.pool.attempt(&INSERT, &[&number, &ids, &delays, &earliest, &envelopes]).await?;
        match answer {
            Ok(_) => Ok(vec![Enqueued::Created; jobs.len()]),
            Err(error) if is_taken(&error) => self.insert_missing(queue, jobs).await,
            Err(error) => Err(classify(INSERT.name, error)),
        }
    }

    async fn insert_missing(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        let mut seen = HashSet::new();
        let first: Vec<bool> = jobs.iter().map(|job| seen.insert(job.id.as_str())).collect();
        let distinct = jobs.iter().zip(&first).filter(|(_, first)| **first).map(|(job, _)| job);
        let Columns { ids, delays, earliest, envelopes } = Columns::of(distinct);
        let number = self.number(queue).await?;
        self.pool.query(&FORGET, &[&ids]).await?;
        let rows = self.pool.query(&ENQUEUE, &[&number, &ids, &delays, &earliest, &envelopes]).await?;
        let created: HashSet<&str> = rows.iter().map(|row| row.get("id")).collect();
        let answer = |(job, first): (&NewJob, &bool)| {
            if *first && created.contains(job.id.as_str()) { Enqueued::Created } else { Enqueued::Exists }
        };
        Ok(jobs.iter().zip(&first).map(answer).collect())
    }
}

/// What is to be announced of jobs that were added.
pub(crate) fn wakes(queue: &Queue, jobs: &[NewJob], made: &[Made], now: Timestamp) -> Vec<Wake> {
    let waits = |made: &Made| made.answer == Enqueued::Created && !made.blocked;
    let created = jobs.iter().zip(made).filter(|(_, made)| waits(made));
    let (due, later): (Vec<_>, Vec<_>) = created.partition(|(job, _)| is_due(job.due, now));
    let mut wakes = Vec::new();
    if !due.is_empty() {
        wakes.push(Wake::Queue { queue: queue.clone(), jobs: due.len() });
    }
    if !later.is_empty() {
        wakes.push(Wake::Sooner(queue.clone()));
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
