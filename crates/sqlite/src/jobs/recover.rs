//! `recover`: finds leases that a worker holds and does not know of.

use std::collections::HashSet;

use rusqlite::params;
use tidemill_core::store::{Claimed, RecoverParams};
use tidemill_core::{Error, HolderId, Queue, Token};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::row::{self, LeasedRow};
use crate::store::SqliteStore;

pub(crate) async fn recover(store: &SqliteStore, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
    let (queue, worker) = (recover.queue.clone(), recover.worker.clone());
    let known: HashSet<Token> = recover.known_leases.iter().map(|lease| lease.token).collect();
    let rows = store.read(move |tx| unknown_leases(tx, &queue, &worker, &known)).await?;
    Ok(rows.into_iter().map(|leased| leased.into_claimed(recover.queue)).collect())
}

fn unknown_leases(
    tx: &Tx<'_>,
    queue: &Queue,
    worker: &HolderId,
    known: &HashSet<Token>,
) -> Result<Vec<LeasedRow>, RequestError> {
    let Some(queue_row) = queue_row::find(tx.connection, queue)? else { return Ok(Vec::new()) };
    let mut leases = tx.connection.prepare_cached(sql!("jobs/recover"))?;
    let mut rows = leases.query(params![queue_row.number, worker.as_str()])?;
    let mut unknown = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, claim) = (row.get(0)?, row.get(1)?);
        let token = row::token(claim, seq);
        if !known.contains(&token) {
            let (id, body) = (row::job_id(row, 3, seq)?, row::body(row, 4)?);
            unknown.push(LeasedRow { token, id, body, started: row.get(2)? });
        }
    }
    Ok(unknown)
}
