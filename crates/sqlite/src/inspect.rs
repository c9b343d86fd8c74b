//! Looking at jobs and queues: one, a page, or counts that stop at a cap.

use rusqlite::{Row, params};
use tidemill_core::job::JobState;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{COUNT_CAP, JobInfo, JobRecord, ListJobsParams, Page, QueueInfo};
use tidemill_core::{Error, Timestamp};

use crate::call::Tx;
use crate::chains::waits_for;
use crate::error::Failure;
use crate::jobs::{Found, Place, find, find_queue};
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn get(store: &SqliteStore, job: &JobId) -> Result<Option<JobInfo>, Error> {
    let job = job.clone();
    store.read(move |tx| get_in(tx, &job)).await
}

/// One job, as a transaction sees it.
pub(crate) fn get_in(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobInfo>, Failure> {
    match look_at(tx, job)? {
        Some(info) => Ok(Some(info)),
        None => Ok(find_record(tx, job)?.map(ended)),
    }
}

fn look_at(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobInfo>, Failure> {
    let Some(found) = find(tx, job)?.filter(|found| !found.is_forgotten(tx.now)) else { return Ok(None) };
    let Found { seq, queue, job, due, place, body, .. } = found;
    let info = |state| plain(job, Some(queue), state, body);
    Ok(Some(match place {
        Place::Dead => info(JobState::Dead),
        Place::Running { by, cancelling, .. } => {
            JobInfo { held_by: Some(by), cancelling, ..info(JobState::Running) }
        }
        Place::Blocked => JobInfo { waits_for: waits_for(tx, seq)?, ..info(JobState::Blocked) },
        Place::Waiting if due > tx.now => JobInfo { due: Some(due), ..info(JobState::Scheduled) },
        Place::Waiting => info(JobState::Ready),
    }))
}

/// How the chain of a job ended, while that is kept.
pub(crate) fn find_record(tx: &Tx<'_>, job: &JobId) -> Result<Option<JobRecord>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../sql/records/find.sql"))?;
    let job = job.chain();
    let mut rows = find.query(params![job.as_str(), tx.now.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state = row.get_ref(0)?.as_str()?.parse::<JobState>();
    let state = state.map_err(|error| Error::Corrupt(error.to_string()))?;
    let (finished_at, expires) = (Timestamp(row.get(2)?), Timestamp(row.get(3)?));
    let (error, output) = (row.get(1)?, row::body(row, 4)?);
    Ok(Some(JobRecord { job, state, output, error, finished_at, keep: finished_at.until(expires) }))
}

fn ended(record: JobRecord) -> JobInfo {
    let info = plain(record.job.clone(), None, record.state, bytes::Bytes::new());
    JobInfo { record: Some(record), ..info }
}

fn plain(job: JobId, queue: Option<Queue>, state: JobState, data: bytes::Bytes) -> JobInfo {
    JobInfo {
        job,
        queue,
        state,
        data,
        due: None,
        held_by: None,
        cancelling: false,
        waits_for: Vec::new(),
        record: None,
    }
}

pub(crate) async fn list(store: &SqliteStore, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
    let ListJobsParams { queue, state, cursor, limit } = list;
    let after = cursor.as_deref().map_or(Ok(Position::START), Position::read)?;
    if matches!(state, JobState::Done | JobState::Cancelled) {
        return Err(Error::Invalid(format!("jobs that are {state} are not listed, only looked up by id")));
    }
    let queue = queue.clone();
    store.read(move |tx| page(tx, &queue, state, (after, limit))).await
}

/// Where a page ends: the time its jobs are ordered by, and the job's number.
#[derive(Debug, Clone, Copy)]
struct Position(i64, i64);

impl Position {
    const START: Self = Self(i64::MIN, i64::MIN);

    fn read(cursor: &str) -> Result<Self, Error> {
        let place =
            cursor.split_once('.').and_then(|(time, seq)| Some((time.parse().ok()?, seq.parse().ok()?)));
        let (time, seq) =
            place.ok_or_else(|| Error::Invalid(format!("{:?} is no place in a list", shorten(cursor))))?;
        Ok(Self(time, seq))
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

fn page(
    tx: &Tx<'_>,
    queue: &Queue,
    state: JobState,
    (after, limit): (Position, usize),
) -> Result<Page<JobInfo>, Failure> {
    let Some(known) = find_queue(tx.connection, queue)? else { return Ok(Page::default()) };
    let (number, now, most) = (known.number, tx.now.0, i64::try_from(limit).unwrap_or(i64::MAX));
    let waiting = include_str!("../sql/jobs/list_waiting.sql");
    let (sql, key) = match state {
        // What is ready comes before what is scheduled in one and the same line.
        JobState::Ready => (waiting, vec![number, after.0, after.1, now, most]),
        JobState::Scheduled => {
            let from = if after.0 > now { after } else { Position(now, i64::MAX) };
            (waiting, vec![number, from.0, from.1, i64::MAX, most])
        }
        JobState::Running => (include_str!("../sql/jobs/list_running.sql"), vec![number, after.1, most]),
        JobState::Blocked => (include_str!("../sql/jobs/list_blocked.sql"), vec![number, after.1, most]),
        _ => (include_str!("../sql/letters/list.sql"), vec![number, after.0, after.1, most]),
    };
    let mut list = tx.connection.prepare_cached(sql)?;
    let mut rows = list.query(rusqlite::params_from_iter(key))?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let (info, place) = listed(tx, row, queue, state)?;
        page.items.push(info);
        page.next = (page.items.len() == limit).then(|| format!("{}.{}", place.0, place.1));
    }
    Ok(page)
}

/// A row of any list: a time, the job's number, its id, its bytes and, if it runs, by whom.
fn listed(
    tx: &Tx<'_>,
    row: &Row<'_>,
    queue: &Queue,
    state: JobState,
) -> Result<(JobInfo, Position), Failure> {
    let place = Position(row.get(0)?, row.get(1)?);
    let id = row::job_id(row, 2, place.1)?;
    let info = plain(id, Some(queue.clone()), state, row::body(row, 3)?);
    let info = match state {
        JobState::Scheduled => JobInfo { due: Some(Timestamp(place.0)), ..info },
        JobState::Blocked => JobInfo { waits_for: waits_for(tx, place.1)?, ..info },
        JobState::Running => JobInfo { held_by: row.get(4)?, cancelling: row.get(5)?, ..info },
        _ => info,
    };
    Ok((info, place))
}

pub(crate) async fn queues(store: &SqliteStore) -> Result<Vec<QueueInfo>, Error> {
    let look = move |tx: &mut Tx<'_>| {
        let mut list = tx.connection.prepare_cached(include_str!("../sql/queues/list.sql"))?;
        let mut rows = list.query(params![tx.now.0, COUNT_CAP as i64])?;
        let mut queues = Vec::new();
        while let Some(row) = rows.next()? {
            queues.push(counted(row)?);
        }
        Ok(queues)
    };
    store.read(look).await
}

fn counted(row: &Row<'_>) -> Result<QueueInfo, Failure> {
    let count = |column| Ok::<_, Failure>(row.get::<_, i64>(column)?.cast_unsigned());
    Ok(QueueInfo {
        queue: row::queue(row, 0)?,
        paused: row.get(2)?,
        problems: Vec::new(),
        ready: count(3)?,
        scheduled: count(4)?,
        blocked: count(5)?,
        running: count(6)?,
        dead: count(7)?,
    })
}
