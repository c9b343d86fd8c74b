//! Bringing dead letters back, or dropping them.

use rusqlite::{OptionalExtension, params};
use tidemill_core::Error;
use tidemill_core::chain::Blocker;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::wake::Wake;

use super::queue;
use crate::call::{Cost, Tx};
use crate::chains;
use crate::error::Failure;
use crate::store::SqliteStore;

pub(crate) async fn redrive(store: &SqliteStore, redrive: RedriveParams<'_>) -> Result<u64, Error> {
    let (queue, letters) = (redrive.queue.clone(), redrive.letters.to_vec());
    store.write(Cost::change(letters.len()), move |tx| redrive_all(tx, &queue, &letters)).await
}

fn redrive_all(tx: &mut Tx<'_>, queue: &Queue, letters: &[RedriveItem]) -> Result<u64, Failure> {
    let Some(known) = queue::find(tx.connection, queue)? else { return Ok(0) };
    let mut redrive = tx.connection.prepare_cached(include_str!("../../sql/letters/redrive.sql"))?;
    let mut moved = 0_usize;
    for RedriveItem { job, letter, envelope } in letters {
        let chain = job.chain();
        let key = params![chain.as_str(), known.number, &envelope[..], tx.now.0, &letter[..]];
        if let Some(seq) = redrive.query_row(key, |row| row.get(0)).optional()? {
            queue::line_up(tx, known.number, tx.now, seq)?;
            moved += 1;
        }
    }
    if moved > 0 {
        tx.announcements.add(Wake::Queue { queue: queue.clone(), jobs: moved });
    }
    Ok(moved as u64)
}

pub(crate) async fn drop_letters(store: &SqliteStore, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
    let jobs: Vec<JobId> = jobs.iter().filter(|job| !job.is_task()).cloned().collect();
    let queue = queue.clone();
    store.write(Cost::change(jobs.len()), move |tx| drop_all(tx, &queue, &jobs)).await
}

fn drop_all(tx: &mut Tx<'_>, queue: &Queue, jobs: &[JobId]) -> Result<u64, Failure> {
    let Some(known) = queue::find(tx.connection, queue)? else { return Ok(0) };
    let mut drop = tx.connection.prepare_cached(include_str!("../../sql/letters/drop.sql"))?;
    let mut dropped = 0;
    for job in jobs {
        let chain = job.chain();
        let gone = drop.query_row(params![chain.as_str(), known.number], |row| row.get(0)).optional()?;
        if let Some(seq) = gone {
            chains::close(tx, seq, || Blocker::removed_notice(&chain))?;
            dropped += 1;
        }
    }
    Ok(dropped)
}
