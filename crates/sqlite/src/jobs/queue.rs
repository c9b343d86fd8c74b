//! A queue's own row: its number, its pause, and emptying it.

use rusqlite::{Connection, OptionalExtension, params};
use tidemill_core::name::Queue;
use tidemill_core::store::Wake;
use tidemill_core::{Error, Timestamp};

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// How many jobs one transaction of a purge removes: others get their turn in between.
const PURGE: i64 = 4_000;

/// A queue's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) number: i64,
    pub(crate) paused: bool,
}

/// The row of a queue that someone has used.
pub(crate) fn find(connection: &Connection, queue: &Queue) -> Result<Option<Known>, Failure> {
    let mut find = connection.prepare_cached(include_str!("../../sql/queues/find.sql"))?;
    let key = params![queue.name.as_str(), queue.delivery.to_string()];
    let known = find.query_row(key, |row| Ok(Known { number: row.get(0)?, paused: row.get(1)? }));
    Ok(known.optional()?)
}

/// The row of a queue, made if it is new.
pub(super) fn find_or_add(connection: &Connection, queue: &Queue) -> Result<Known, Failure> {
    if let Some(known) = find(connection, queue)? {
        return Ok(known);
    }
    let mut add = connection.prepare_cached(include_str!("../../sql/queues/add.sql"))?;
    let key = params![queue.name.as_str(), queue.delivery.to_string()];
    Ok(Known { number: add.query_row(key, |row| row.get(0))?, paused: false })
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
        tx.announcements.add(Wake::everyone(queue.clone()));
        Ok(())
    };
    store.write(Cost::Change(1), work).await
}

pub(crate) async fn purge(store: &SqliteStore, queue: &Queue) -> Result<u64, Error> {
    let wanted = queue.clone();
    let range = store.write(Cost::Change(1), move |tx| range(tx.connection, &wanted)).await?;
    let Some((queue, last)) = range else { return Ok(0) };
    let mut purged = 0;
    loop {
        let removed = store
            .write(Cost::Change(PURGE as usize), move |tx| purge_some(tx.connection, queue, last))
            .await?;
        purged += removed;
        if removed < PURGE as u64 {
            return Ok(purged);
        }
    }
}

/// What a purge is about: the queue's number and the newest job there is when it begins.
fn range(connection: &Connection, queue: &Queue) -> Result<Option<(i64, i64)>, Failure> {
    let Some(known) = find(connection, queue)? else { return Ok(None) };
    let mut last = connection.prepare_cached(include_str!("../../sql/jobs/last.sql"))?;
    Ok(Some((known.number, last.query_row([], |row| row.get(0))?)))
}

fn purge_some(connection: &Connection, queue: i64, last: i64) -> Result<u64, Failure> {
    let mut purge = connection.prepare_cached(include_str!("../../sql/jobs/purge.sql"))?;
    let places = purge.query_map([queue, last, PURGE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let places: Vec<(i64, i64)> = places.collect::<Result<_, _>>()?;
    let mut leave = connection.prepare_cached(include_str!("../../sql/jobs/leave.sql"))?;
    for (due, seq) in &places {
        leave.execute([queue, *due, *seq])?;
    }
    Ok(places.len() as u64)
}
