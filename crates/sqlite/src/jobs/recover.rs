//! Finding what a worker holds and does not know of.

use std::collections::HashSet;

use rusqlite::params;
use tidemill_core::store::{Claimed, RecoverParams};
use tidemill_core::{Error, HolderId, Queue, Token};

use super::queue;
use crate::call::Tx;
use crate::error::Failure;
use crate::row::{self, Leased};
use crate::store::SqliteStore;

pub(crate) async fn recover(store: &SqliteStore, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
    let (queue, worker) = (recover.queue.clone(), recover.worker.clone());
    let known: HashSet<Token> = recover.known_leases.iter().map(|lease| lease.token).collect();
    let rows = store.read(move |tx| unknown_leases(tx, (&queue, &worker), &known)).await?;
    Ok(rows.into_iter().map(|leased| leased.read(recover.queue)).collect())
}

fn unknown_leases(
    tx: &Tx<'_>,
    (queue, worker): (&Queue, &HolderId),
    known: &HashSet<Token>,
) -> Result<Vec<Leased>, Failure> {
    let Some(found) = queue::find(tx.connection, queue)? else { return Ok(Vec::new()) };
    let mut leases = tx.connection.prepare_cached(include_str!("../../sql/jobs/recover.sql"))?;
    let mut rows = leases.query(params![found.number, worker.as_str()])?;
    let mut unknown = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, claim) = (row.get(0)?, row.get(1)?);
        let token = row::token(claim, seq);
        if !known.contains(&token) {
            let (id, body) = (row::job_id(row, 3, seq)?, row::body(row, 4)?);
            unknown.push(Leased { token, id, body, started: row.get(2)? });
        }
    }
    Ok(unknown)
}
