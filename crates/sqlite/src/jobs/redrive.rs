//! `redrive`: makes dead letters ready again.

use rusqlite::{OptionalExtension, named_params};
use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::wake::Wake;

use super::waiting;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::store::SqliteStore;

pub(crate) async fn redrive(store: &SqliteStore, redrive: RedriveParams<'_>) -> Result<u64, Error> {
    let (queue, letters) = (redrive.queue.clone(), redrive.letters.to_vec());
    store.write(Cost::change(letters.len()), move |tx| redrive_all(tx, &queue, &letters)).await
}

fn redrive_all(tx: &mut Tx<'_>, queue: &Queue, letters: &[RedriveItem]) -> Result<u64, RequestError> {
    let Some(row) = queue_row::find(tx.connection, queue)? else { return Ok(0) };
    let mut redrive = tx.connection.prepare_cached(sql!("jobs/redrive"))?;
    let mut moved = 0_usize;
    for RedriveItem { job, letter, envelope } in letters {
        let chain = job.chain();
        let key = named_params! {
            ":id": chain.as_str(),
            ":queue": row.number,
            ":body": &envelope[..],
            ":due": tx.now.0,
            ":letter": &letter[..],
        };
        if let Some(seq) = redrive.query_row(key, |row| row.get(0)).optional()? {
            waiting::insert(tx, row.number, tx.now, seq)?;
            moved += 1;
        }
    }
    if moved > 0 {
        tx.wakes.add(Wake::Queue { queue: queue.clone(), jobs: moved });
    }
    Ok(moved as u64)
}
