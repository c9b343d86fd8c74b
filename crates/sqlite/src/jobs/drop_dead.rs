//! `drop_dead`: deletes dead letters.

use rusqlite::{OptionalExtension, params};
use tidemill_core::Error;
use tidemill_core::chain::Blocker;
use tidemill_core::name::{JobId, Queue};

use crate::chains;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::store::SqliteStore;

pub(crate) async fn drop_dead(store: &SqliteStore, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
    let jobs: Vec<JobId> = jobs.iter().filter(|job| !job.is_task()).cloned().collect();
    let queue = queue.clone();
    store.write(Cost::change(jobs.len()), move |tx| drop_all(tx, &queue, &jobs)).await
}

fn drop_all(tx: &mut Tx<'_>, queue: &Queue, jobs: &[JobId]) -> Result<u64, RequestError> {
    let Some(row) = queue_row::find(tx.connection, queue)? else { return Ok(0) };
    let mut delete = tx.connection.prepare_cached(sql!("jobs/drop_dead"))?;
    let mut dropped = 0;
    for job in jobs {
        let chain = job.chain();
        let deleted = delete.query_row(params![chain.as_str(), row.number], |row| row.get(0)).optional()?;
        if let Some(seq) = deleted {
            chains::close(tx, seq, || Blocker::removed_notice(&chain))?;
            dropped += 1;
        }
    }
    Ok(dropped)
}
