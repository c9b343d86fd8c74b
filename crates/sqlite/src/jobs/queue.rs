//! A queue's own row: its number and its pause, and its line.

use rusqlite::{Connection, OptionalExtension, params};
use tidemill_core::name::Queue;
use tidemill_core::wake::Wake;
use tidemill_core::{Error, Timestamp};

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// A queue's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) number: i64,
    pub(crate) paused: bool,
}

/// The row of a queue that someone has used.
pub(crate) fn find(connection: &Connection, queue: &Queue) -> Result<Option<Known>, Failure> {
    let mut find = connection.prepare_cached(include_str!("../../sql/queues/find.sql"))?;
    let key = params![queue.name.as_str(), queue.guarantee.to_string()];
    let known = find.query_row(key, |row| Ok(Known { number: row.get(0)?, paused: row.get(1)? }));
    Ok(known.optional()?)
}

/// The row of a queue, made if it is new.
pub(crate) fn find_or_add(connection: &Connection, queue: &Queue) -> Result<Known, Failure> {
    if let Some(known) = find(connection, queue)? {
        return Ok(known);
    }
    let mut add = connection.prepare_cached(include_str!("../../sql/queues/add.sql"))?;
    let key = params![queue.name.as_str(), queue.guarantee.to_string()];
    Ok(Known { number: add.query_row(key, |row| row.get(0))?, paused: false })
}

/// A queue and its number.
pub(crate) struct Line<'q> {
    pub(crate) queue: &'q Queue,
    pub(crate) number: i64,
}

/// Puts a job into a queue's line and tells those who wait for such.
pub(crate) fn arrive(tx: &mut Tx<'_>, line: &Line<'_>, due: Timestamp, seq: i64) -> Result<(), Failure> {
    line_up(tx, line.number, due, seq)?;
    if due <= tx.now {
        tx.announcements.add(Wake::Queue { queue: line.queue.clone(), jobs: 1 });
        return Ok(());
    }
    announce_if_sooner(tx, line, Some(due))
}

/// Tells those who wait for the queue's next scheduled job if `added` is now the next.
pub(super) fn announce_if_sooner(
    tx: &mut Tx<'_>,
    line: &Line<'_>,
    added: Option<Timestamp>,
) -> Result<(), Failure> {
    let is_next = added.is_some() && next_due(tx, line.number)? == added;
    if is_next {
        tx.announcements.add(Wake::DueEarlier(line.queue.clone()));
    }
    Ok(())
}

/// Puts a job into a queue's line.
pub(super) fn line_up(tx: &Tx<'_>, queue: i64, due: Timestamp, seq: i64) -> Result<(), Failure> {
    let mut wait = tx.connection.prepare_cached(include_str!("../../sql/jobs/wait.sql"))?;
    wait.execute([queue, due.0, seq])?;
    Ok(())
}

/// When the queue's next scheduled job is due.
pub(super) fn next_due(tx: &Tx<'_>, queue: i64) -> Result<Option<Timestamp>, Failure> {
    let mut next = tx.connection.prepare_cached(include_str!("../../sql/jobs/next.sql"))?;
    Ok(next.query_row([queue, tx.now.0], |row| row.get(0).map(Timestamp)).optional()?)
}

pub(crate) async fn pause(store: &SqliteStore, queue: &Queue) -> Result<(), Error> {
    set_paused(store, queue, true).await
}

pub(crate) async fn resume(store: &SqliteStore, queue: &Queue) -> Result<(), Error> {
    set_paused(store, queue, false).await
}

async fn set_paused(store: &SqliteStore, queue: &Queue, paused: bool) -> Result<(), Error> {
    let queue = queue.clone();
    let work = move |tx: &mut Tx<'_>| {
        let known = find_or_add(tx.connection, &queue)?;
        let mut pause = tx.connection.prepare_cached(include_str!("../../sql/queues/pause.sql"))?;
        pause.execute(params![known.number, paused])?;
        tx.announcements.add(Wake::all_waiters(queue.clone()));
        Ok(())
    };
    store.write(Cost::change(1), work).await
}
