//! `list_queues`: all queues with their counts.

use rusqlite::{Row, params};
use tidemill_core::Error;
use tidemill_core::store::{COUNT_CAP, QueueInfo};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::row;
use crate::store::SqliteStore;

pub(crate) async fn list_queues(store: &SqliteStore) -> Result<Vec<QueueInfo>, Error> {
    let read = move |tx: &mut Tx<'_>| {
        let mut list = tx.connection.prepare_cached(sql!("queues/list_queues"))?;
        let mut rows = list.query(params![tx.now.0, COUNT_CAP as i64])?;
        let mut queues = Vec::new();
        while let Some(row) = rows.next()? {
            queues.push(info_from_row(row)?);
        }
        Ok(queues)
    };
    store.read(read).await
}

fn info_from_row(row: &Row<'_>) -> Result<QueueInfo, RequestError> {
    let count = |column| Ok::<_, RequestError>(row.get::<_, i64>(column)?.cast_unsigned());
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
