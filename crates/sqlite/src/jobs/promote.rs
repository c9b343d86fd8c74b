//! Promoting moves nothing here: a job whose time has come is at the front of its line by its due time alone.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::store::{Promote, Promoted};

use super::queue;
use crate::call::Tx;
use crate::error::Failure;
use crate::store::SqliteStore;

pub(crate) async fn promote(store: &SqliteStore, promote: Promote<'_>) -> Result<Promoted, Error> {
    let queues = promote.queues.to_vec();
    let next = store.read(move |tx| next_of(tx, &queues)).await?;
    Ok(Promoted { moved: 0, next })
}

fn next_of(tx: &Tx<'_>, queues: &[Queue]) -> Result<Option<Duration>, Failure> {
    let mut next = None;
    for queue in queues {
        let Some(known) = queue::find(tx.connection, queue)? else { continue };
        next = next.into_iter().chain(queue::next_due(tx, known.number)?).min();
    }
    Ok(next.map(|due| tx.now.until(due)))
}
