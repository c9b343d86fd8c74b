//! Adding jobs.

use rusqlite::{CachedStatement, Connection, params};
use tidemill_core::store::{Due, EnqueueParams, Enqueued, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Store, Timestamp, retry};

use super::find::find;
use super::prune;
use super::queue::{self, Line, announce_if_sooner};
use crate::call::{Cost, Tx};
use crate::chains::{self, Blocks};
use crate::error::Failure;
use crate::store::SqliteStore;

pub(crate) async fn enqueue(store: &SqliteStore, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
    reserved_ids::check_new(enqueue.jobs)?;
    if enqueue.jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (queue, jobs) = (enqueue.queue.clone(), enqueue.jobs.to_vec());
    let rows = jobs.iter().map(|job| 1 + job.links.after.len()).sum();
    let add = move |tx: &mut Tx<'_>| add_all(tx, EnqueueParams { queue: &queue, jobs: &jobs });
    // No answer is lost between threads, and what fails is rolled back: a repeat needs no receipt.
    retry::until_answered(store.clock(), || store.write(Cost::growth(rows), add.clone())).await
}

/// Adds jobs, all of them or, on an error, only some: then the caller rolls back.
pub(crate) fn add_all(tx: &mut Tx<'_>, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Failure> {
    let EnqueueParams { queue, jobs } = enqueue;
    let line = Line { queue, number: queue::find_or_add(tx.connection, queue)?.number };
    let mut adder = Adder::new(tx.connection, line.number)?;
    let answers = jobs.iter().map(|job| adder.add_or_find(tx, job)).collect::<Result<_, _>>()?;
    adder.line_up()?;
    if adder.ready > 0 {
        tx.announcements.add(Wake::Queue { queue: queue.clone(), jobs: adder.ready });
    }
    announce_if_sooner(tx, &line, adder.earliest)?;
    Ok(answers)
}

/// A time that is past means now: a job does not overtake those that have waited longer.
pub(crate) fn due(due: Due, now: Timestamp) -> Timestamp {
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
    /// The numbers of the first and the last job added that has yet to get in line.
    added: Option<(i64, i64)>,
    /// How many were added that are due.
    ready: usize,
    /// When the first of the others is due.
    earliest: Option<Timestamp>,
}

impl<'c> Adder<'c> {
    fn new(connection: &'c Connection, queue: i64) -> Result<Self, Failure> {
        Ok(Self {
            queue,
            connection,
            kept: connection.prepare_cached(include_str!("../../sql/records/kept.sql"))?,
            enqueue: connection.prepare_cached(include_str!("../../sql/jobs/enqueue.sql"))?,
            added: None,
            ready: 0,
            earliest: None,
        })
    }

    fn add_or_find(&mut self, tx: &mut Tx<'_>, job: &NewJob) -> Result<Enqueued, Failure> {
        if !job.generated_id && self.is_known(tx, job)? {
            return Ok(Enqueued::Exists);
        }
        if let Some(dedup) = &job.links.dedup
            && let Some(chain) = chains::find_by_key(tx, dedup)?
        {
            return Ok(Enqueued::Duplicate(chain));
        }
        let blocks = Blocks::look_up(tx, &job.links.after)?;
        // An id that is taken may belong to a job that is only not forgotten yet.
        let added = self.add(tx, job, &blocks)?
            || (prune::forget_if_expired(tx, &job.id)? && self.add(tx, job, &blocks)?);
        Ok(if added { Enqueued::Created } else { Enqueued::Exists })
    }

    /// Whether something is known of this id that adding the job would not find by itself.
    fn is_known(&mut self, tx: &Tx<'_>, job: &NewJob) -> Result<bool, Failure> {
        // An untracked job keeps no record.
        let chain = job.id.chain();
        let kept = job.tracked && self.kept.query_row(params![chain.as_str(), tx.now.0], |row| row.get(0))?;
        // What this job waits for may be gone by now, and its key is its own.
        let linked = || Ok(!job.links.is_empty() && find(tx, &chain)?.is_some());
        if kept { Ok(true) } else { linked() }
    }

    /// Adds a job unless its id is taken.
    fn add(&mut self, tx: &Tx<'_>, job: &NewJob, blocks: &Blocks) -> Result<bool, Failure> {
        let due = due(job.due, tx.now);
        let (chain, envelope) = (job.id.chain(), blocks.tell(&job.envelope));
        let key = job.links.dedup.as_ref().map(|dedup| &dedup.key);
        let begun = key.map(|_| tx.now.0);
        let row = params![chain.as_str(), job.id.step(), self.queue, due.0, key, begun, &envelope[..]];
        if self.enqueue.execute(row)? == 0 {
            return Ok(false);
        }
        let seq = self.connection.last_insert_rowid();
        if blocks.are_open() {
            self.line_up()?;
            blocks.register(tx, seq, self.queue)?;
            return Ok(true);
        }
        self.added = Some((self.added.map_or(seq, |(first, _)| first), seq));
        match due <= tx.now {
            true => self.ready += 1,
            false => self.earliest = Some(self.earliest.map_or(due, |other| due.min(other))),
        }
        Ok(true)
    }

    /// Puts what was added since the last time into its queue's line.
    fn line_up(&mut self) -> Result<(), Failure> {
        let Some((first, last)) = self.added.take() else { return Ok(()) };
        let mut line_up = self.connection.prepare_cached(include_str!("../../sql/jobs/line_up.sql"))?;
        line_up.execute([first, last])?;
        Ok(())
    }
}
