//! `list_jobs`: pages of jobs in one state.

use rusqlite::Row;
use tidemill_core::job::JobState;
use tidemill_core::name::Queue;
use tidemill_core::store::{JobInfo, ListJobsParams, Page};
use tidemill_core::{Error, Timestamp};

use super::get_job::new_info;
use crate::chains::waits_for;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn list_jobs(store: &SqliteStore, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
    let ListJobsParams { queue, state, cursor, limit } = list;
    let after = cursor.as_deref().map_or(Ok(PageCursor::START), PageCursor::parse)?;
    if matches!(state, JobState::Done | JobState::Cancelled) {
        return Err(Error::Invalid(format!("jobs that are {state} are not listed, only looked up by id")));
    }
    let queue = queue.clone();
    store.read(move |tx| page(tx, &queue, state, PageBounds { after, limit })).await
}

/// The end of a page: the time by which its jobs are sorted, and the job's number.
#[derive(Debug, Clone, Copy)]
struct PageCursor(i64, i64);

impl PageCursor {
    const START: Self = Self(i64::MIN, i64::MIN);

    fn parse(cursor: &str) -> Result<Self, Error> {
        let parts =
            cursor.split_once('.').and_then(|(time, seq)| Some((time.parse().ok()?, seq.parse().ok()?)));
        let (time, seq) = parts
            .ok_or_else(|| Error::Invalid(format!("{:?} is not a cursor of a list", shorten(cursor))))?;
        Ok(Self(time, seq))
    }
}

/// Where a page starts and how many jobs it has at most.
struct PageBounds {
    after: PageCursor,
    limit: usize,
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

fn page(
    tx: &Tx<'_>,
    queue: &Queue,
    state: JobState,
    PageBounds { after, limit }: PageBounds,
) -> Result<Page<JobInfo>, RequestError> {
    let Some(row) = queue_row::find(tx.connection, queue)? else { return Ok(Page::default()) };
    let (number, now, max) = (row.number, tx.now.0, i64::try_from(limit).unwrap_or(i64::MAX));
    let from = match state {
        JobState::Scheduled if after.0 <= now => PageCursor(now, i64::MAX),
        _ => after,
    };
    let (queue_number, limit_jobs) = ((":queue", number), (":limit", max));
    let (after_due, after_seq) = ((":after_due", from.0), (":after_seq", from.1));
    let until = |due: i64| vec![queue_number, after_due, after_seq, (":until", due), limit_jobs];
    let (sql, key) = match state {
        // One table holds ready and scheduled jobs; ready ones come first.
        JobState::Ready => (sql!("inspect/list_jobs_waiting"), until(now)),
        JobState::Scheduled => (sql!("inspect/list_jobs_waiting"), until(i64::MAX)),
        JobState::Running => (sql!("inspect/list_jobs_running"), vec![queue_number, after_seq, limit_jobs]),
        JobState::Blocked => (sql!("inspect/list_jobs_blocked"), vec![queue_number, after_seq, limit_jobs]),
        _ => (sql!("inspect/list_jobs_dead"), vec![queue_number, after_due, after_seq, limit_jobs]),
    };
    let mut list = tx.connection.prepare_cached(sql)?;
    let mut rows = list.query(&key[..])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let (info, position) = info_from_row(tx, row, queue, state)?;
        page.items.push(info);
        page.next = (page.items.len() == limit).then(|| format!("{}.{}", position.0, position.1));
    }
    Ok(page)
}

/// Reads a row of any list: a time, the job's number, its id, its envelope and, if it runs, its
/// worker.
fn info_from_row(
    tx: &Tx<'_>,
    row: &Row<'_>,
    queue: &Queue,
    state: JobState,
) -> Result<(JobInfo, PageCursor), RequestError> {
    let position = PageCursor(row.get(0)?, row.get(1)?);
    let id = row::job_id(row, 2, position.1)?;
    let info = new_info(id, Some(queue.clone()), state, row::body(row, 3)?);
    let info = match state {
        JobState::Scheduled => JobInfo { due: Some(Timestamp(position.0)), ..info },
        JobState::Blocked => JobInfo { waits_for: waits_for(tx, position.1)?, ..info },
        JobState::Running => JobInfo { held_by: row.get(4)?, cancelling: row.get(5)?, ..info },
        _ => info,
    };
    Ok((info, position))
}
