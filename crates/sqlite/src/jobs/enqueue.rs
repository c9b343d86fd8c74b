//! Adding jobs.

use rusqlite::{CachedStatement, Connection, params};
use tidemill_core::name::Queue;
use tidemill_core::store::{Due, Enqueue, Enqueued, NewJob, Wake};
use tidemill_core::{Error, Timestamp};

use super::{prune, queue};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

pub(crate) async fn enqueue(store: &SqliteStore, enqueue: Enqueue<'_>) -> Result<Vec<Enqueued>, Error> {
    if enqueue.jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (queue, jobs) = (enqueue.queue.clone(), enqueue.jobs.to_vec());
    store.write(Cost::Growth(jobs.len()), move |tx| add_all(tx, &queue, &jobs)).await
}

fn add_all(tx: &mut Tx<'_>, queue: &Queue, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Failure> {
    let line = Line { queue, number: queue::find_or_add(tx.connection, queue)?.number };
    let mut adder = Adder::new(tx.connection, line.number)?;
    let mut answers = Vec::with_capacity(jobs.len());
    let (mut ready, mut earliest) = (0, None);
    for job in jobs {
        let due = due(job.due, tx.now);
        let added = adder.add_or_find(tx, job, due)?;
        answers.push(added.clone());
        match added {
            Enqueued::Exists | Enqueued::Duplicate(_) => {}
            Enqueued::Created if due <= tx.now => ready += 1,
            Enqueued::Created => earliest = Some(earliest.map_or(due, |other| due.min(other))),
        }
    }
    adder.line_up()?;
    if ready > 0 {
        tx.announcements.add(Wake::Queue { queue: queue.clone(), jobs: ready });
    }
    announce_if_sooner(tx, &line, earliest)?;
    Ok(answers)
}

/// A time that is past means now: a job does not overtake those that have waited longer.
fn due(due: Due, now: Timestamp) -> Timestamp {
    match due {
        Due::Now => now,
        Due::In(delay) => now.after(delay),
        Due::At(time) => time.max(now),
    }
}

/// The statements that add a job, looked up once for a whole batch: for one job, looking them up costs as
/// much as running them.
struct Adder<'c> {
    queue: i64,
    connection: &'c Connection,
    kept: CachedStatement<'c>,
    enqueue: CachedStatement<'c>,
    /// The numbers of the first and the last job added.
    added: Option<(i64, i64)>,
}

impl<'c> Adder<'c> {
    fn new(connection: &'c Connection, queue: i64) -> Result<Self, Failure> {
        Ok(Self {
            queue,
            connection,
            kept: connection.prepare_cached(include_str!("../../sql/records/kept.sql"))?,
            enqueue: connection.prepare_cached(include_str!("../../sql/jobs/enqueue.sql"))?,
            added: None,
        })
    }

    fn add_or_find(&mut self, tx: &Tx<'_>, job: &NewJob, due: Timestamp) -> Result<Enqueued, Failure> {
        // An untracked job keeps no record.
        if job.tracked && self.is_kept(tx, job)? {
            return Ok(Enqueued::Exists);
        }
        // An id that is taken may belong to a job that is only not forgotten yet.
        let added = self.add(job, due)? || (prune::forget_if_expired(tx, &job.id)? && self.add(job, due)?);
        Ok(if added { Enqueued::Created } else { Enqueued::Exists })
    }

    fn is_kept(&mut self, tx: &Tx<'_>, job: &NewJob) -> Result<bool, Failure> {
        Ok(self.kept.query_row(params![job.id.as_str(), tx.now.0], |row| row.get(0))?)
    }

    /// Adds a job unless its id is taken.
    fn add(&mut self, job: &NewJob, due: Timestamp) -> Result<bool, Failure> {
        let key = params![job.id.as_str(), self.queue, due.0, &job.envelope[..]];
        let added = self.enqueue.execute(key)? == 1;
        if added {
            let seq = self.connection.last_insert_rowid();
            self.added = Some((self.added.map_or(seq, |(first, _)| first), seq));
        }
        Ok(added)
    }

    fn line_up(&self) -> Result<(), Failure> {
        let Some((first, last)) = self.added else { return Ok(()) };
        let mut line_up = self.connection.prepare_cached(include_str!("../../sql/jobs/line_up.sql"))?;
        line_up.execute([first, last])?;
        Ok(())
    }
}

/// A queue and its number.
pub(super) struct Line<'q> {
    pub(super) queue: &'q Queue,
    pub(super) number: i64,
}

/// Tells those who wait for the queue's next scheduled job if `added` is now the next.
pub(super) fn announce_if_sooner(
    tx: &mut Tx<'_>,
    line: &Line<'_>,
    added: Option<Timestamp>,
) -> Result<(), Failure> {
    let is_next = added.is_some() && queue::next_due(tx, line.number)? == added;
    if is_next {
        tx.announcements.add(Wake::Sooner(line.queue.clone()));
    }
    Ok(())
}
