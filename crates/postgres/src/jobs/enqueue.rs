//! Adding jobs: one statement per batch.

use std::collections::HashSet;

use tidemill_core::store::{Due, Enqueued, NewJob, Wake};
use tidemill_core::{Clock, Error, Queue, Timestamp};

use super::ms;
use crate::Inner;
use crate::error::{classify, is_taken};
use crate::sql::{ENQUEUE, FORGET, INSERT};

impl Inner {
    /// Adds jobs and announces them.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let made = if jobs.iter().all(|job| !job.tracked) {
            self.insert(queue, jobs).await?
        } else {
            self.insert_missing(queue, jobs).await?
        };
        let now = self.pool.clock.now();
        let created = jobs.iter().zip(&made).filter(|(_, made)| **made == Enqueued::Created);
        let (due, later): (Vec<_>, Vec<_>) = created.partition(|(job, _)| is_due(job.due, now));
        if !due.is_empty() {
            self.hub.announce_surely(Wake::Queue { queue: queue.clone(), jobs: due.len() }).await;
        }
        if !later.is_empty() {
            self.hub.announce_surely(Wake::Sooner(queue.clone())).await;
        }
        Ok(made)
    }

    /// The ids of untracked jobs are new, unless the call is repeated.
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
        self.pool.execute(&FORGET, &[&ids]).await?;
        let rows = self.pool.query(&ENQUEUE, &[&number, &ids, &delays, &earliest, &envelopes]).await?;
        let created: HashSet<&str> = rows.iter().map(|row| row.get("id")).collect();
        let answer = |(job, first): (&NewJob, &bool)| {
            if *first && created.contains(job.id.as_str()) { Enqueued::Created } else { Enqueued::Exists }
        };
        Ok(jobs.iter().zip(&first).map(answer).collect())
    }
}

fn is_due(due: Due, now: Timestamp) -> bool {
    match due {
        Due::Now => true,
        Due::In(delay) => delay.is_zero(),
        Due::At(time) => time <= now,
    }
}

/// The jobs turned on their side: a statement takes one array per column.
struct Columns<'a> {
    ids: Vec<&'a str>,
    delays: Vec<i64>,
    earliest: Vec<i64>,
    envelopes: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(jobs: impl Iterator<Item = &'a NewJob> + Clone) -> Self {
        let delay = |job: &NewJob| if let Due::In(delay) = job.due { ms(delay) } else { 0 };
        let earliest = |job: &NewJob| if let Due::At(time) = job.due { time.0 } else { 0 };
        Self {
            ids: jobs.clone().map(|job| job.id.as_str()).collect(),
            delays: jobs.clone().map(delay).collect(),
            earliest: jobs.clone().map(earliest).collect(),
            envelopes: jobs.map(|job| &*job.envelope).collect(),
        }
    }
}
