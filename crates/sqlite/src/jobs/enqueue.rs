//! `enqueue`: adds jobs.

use rusqlite::{CachedStatement, Connection, params};
use tidemill_core::store::{Due, EnqueueParams, Enqueued, NewJob, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Store, Timestamp, retry};

use super::job_row::find;
use super::prune;
use super::waiting::announce_if_sooner;
use crate::chains::{self, ChainBlockers};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::{NumberedQueue, queue_row};
use crate::store::SqliteStore;

/// Whether a record with this id has not expired.
const RECORD_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM tidemill_records WHERE job = ?1 AND expires > ?2)";

/// Inserts the jobs of one enqueue into `waiting`. Their numbers are consecutive, because this
/// transaction assigned them.
const INSERT_WAITING_RANGE: &str = "
    INSERT INTO tidemill_waiting (queue, due, seq) SELECT queue, due, seq FROM tidemill_jobs
        WHERE seq BETWEEN ?1 AND ?2";

pub(crate) async fn enqueue(store: &SqliteStore, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
    reserved_ids::check_new(enqueue.jobs)?;
    if enqueue.jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (queue, jobs) = (enqueue.queue.clone(), enqueue.jobs.to_vec());
    let rows = jobs.iter().map(|job| 1 + job.links.after.len()).sum();
    let insert = move |tx: &mut Tx<'_>| insert_all(tx, EnqueueParams { queue: &queue, jobs: &jobs });
    // Between threads no reply is lost, and a failed transaction is rolled back: a retry needs no
    // receipt.
    retry::until_answered(store.clock(), || store.write(Cost::growth(rows), insert.clone())).await
}

/// Inserts all jobs. On an error some may be inserted, so the caller must roll back.
pub(crate) fn insert_all(tx: &mut Tx<'_>, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, RequestError> {
    let EnqueueParams { queue, jobs } = enqueue;
    let target = NumberedQueue { queue, number: queue_row::find_or_insert(tx.connection, queue)?.number };
    let mut inserter = JobInserter::new(tx.connection, target.number)?;
    let results = jobs.iter().map(|job| inserter.insert_or_find(tx, job)).collect::<Result<_, _>>()?;
    inserter.append_to_waiting()?;
    if inserter.ready > 0 {
        tx.wakes.add(Wake::Queue { queue: queue.clone(), jobs: inserter.ready });
    }
    announce_if_sooner(tx, &target, inserter.earliest)?;
    Ok(results)
}

/// The time at which a job is due. A past time becomes `now`, so that the job does not overtake
/// jobs that have waited longer.
pub(crate) fn due_time(due: Due, now: Timestamp) -> Timestamp {
    match due {
        Due::Now => now,
        Due::In(delay) => now.after(delay),
        Due::At(time) => time.max(now),
    }
}

/// Inserts jobs with statements that are looked up once for a whole batch. For a single job the
/// lookup costs as much as the statement.
struct JobInserter<'c> {
    queue: i64,
    connection: &'c Connection,
    has_record: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    /// The first and last number of inserted jobs that are not yet in `waiting`.
    inserted: Option<(i64, i64)>,
    /// How many inserted jobs are due now.
    ready: usize,
    /// The earliest time at which one of the others is due.
    earliest: Option<Timestamp>,
}

impl<'c> JobInserter<'c> {
    fn new(connection: &'c Connection, queue: i64) -> Result<Self, RequestError> {
        Ok(Self {
            queue,
            connection,
            has_record: connection.prepare_cached(RECORD_EXISTS)?,
            insert: connection.prepare_cached(sql!("jobs/enqueue"))?,
            inserted: None,
            ready: 0,
            earliest: None,
        })
    }

    fn insert_or_find(&mut self, tx: &mut Tx<'_>, job: &NewJob) -> Result<Enqueued, RequestError> {
        if !job.generated_id && self.is_known(tx, job)? {
            return Ok(Enqueued::Exists);
        }
        if let Some(dedup) = &job.links.dedup
            && let Some(chain) = chains::find_by_key(tx, dedup)?
        {
            return Ok(Enqueued::Duplicate(chain));
        }
        let blockers = ChainBlockers::find(tx, &job.links.after)?;
        // A taken id may belong to an expired at-most-once job that is not deleted yet.
        let inserted = self.insert(tx, job, &blockers)?
            || (prune::delete_if_expired(tx, &job.id)? && self.insert(tx, job, &blockers)?);
        Ok(if inserted { Enqueued::Created } else { Enqueued::Exists })
    }

    /// Whether the id is in use in a way that the insert would not detect by itself.
    fn is_known(&mut self, tx: &Tx<'_>, job: &NewJob) -> Result<bool, RequestError> {
        // An untracked job keeps no record.
        let chain = job.id.chain();
        let has_record =
            job.tracked && self.has_record.query_row(params![chain.as_str(), tx.now.0], |row| row.get(0))?;
        // Checked before blockers and the dedup key: the blockers may be gone by now, and the key
        // may be the job's own.
        let linked_job_exists = || Ok(!job.links.is_empty() && find(tx, &chain)?.is_some());
        if has_record { Ok(true) } else { linked_job_exists() }
    }

    /// Inserts a job unless its id is taken.
    fn insert(&mut self, tx: &Tx<'_>, job: &NewJob, blockers: &ChainBlockers) -> Result<bool, RequestError> {
        let due = due_time(job.due, tx.now);
        let (chain, envelope) = (job.id.chain(), blockers.add_notices(&job.envelope));
        let key = job.links.dedup.as_ref().map(|dedup| &dedup.key);
        let begun = key.map(|_| tx.now.0);
        let row = params![chain.as_str(), job.id.step(), self.queue, due.0, key, begun, &envelope[..]];
        if self.insert.execute(row)? == 0 {
            return Ok(false);
        }
        let seq = self.connection.last_insert_rowid();
        if blockers.any_open() {
            self.append_to_waiting()?;
            blockers.register(tx, seq, self.queue)?;
            return Ok(true);
        }
        self.inserted = Some((self.inserted.map_or(seq, |(first, _)| first), seq));
        match due <= tx.now {
            true => self.ready += 1,
            false => self.earliest = Some(self.earliest.map_or(due, |other| due.min(other))),
        }
        Ok(true)
    }

    /// Adds the jobs inserted since the last call to `waiting`.
    fn append_to_waiting(&mut self) -> Result<(), RequestError> {
        let Some((first, last)) = self.inserted.take() else { return Ok(()) };
        let mut append = self.connection.prepare_cached(INSERT_WAITING_RANGE)?;
        append.execute([first, last])?;
        Ok(())
    }
}
