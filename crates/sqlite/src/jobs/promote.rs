//! Promoting moves no job here: one whose time has come is at the front of its line by its due time alone. Runs are told
//! of their alarms.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::store::{PromoteParams, Promoted};

use super::queue;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::runs;
use crate::store::SqliteStore;

pub(crate) async fn promote(store: &SqliteStore, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
    let queues = promote.queues.to_vec();
    let (job, alarm) = store.read(move |tx| Ok((next_of(tx, &queues)?, until_alarm(tx)?))).await?;
    // Most of the time no alarm is due, and nobody should wait for the write lock to learn it.
    let (moved, alarm) = match alarm {
        Some(Duration::ZERO) => ring(store, promote.limit).await?,
        alarm => (0, alarm),
    };
    Ok(Promoted { moved, next: job.into_iter().chain(alarm).min() })
}

/// How many alarms went off, and how long until the next is due.
async fn ring(store: &SqliteStore, limit: usize) -> Result<(u64, Option<Duration>), Error> {
    let work = move |tx: &mut Tx<'_>| Ok((runs::ring(tx, limit)?, until_alarm(tx)?));
    store.write(Cost::change(2 * limit), work).await
}

fn until_alarm(tx: &Tx<'_>) -> Result<Option<Duration>, Failure> {
    Ok(runs::next_alarm(tx)?.map(|due| tx.now.until(due)))
}

fn next_of(tx: &Tx<'_>, queues: &[Queue]) -> Result<Option<Duration>, Failure> {
    let mut next = None;
    for queue in queues {
        let Some(known) = queue::find(tx.connection, queue)? else { continue };
        next = next.into_iter().chain(queue::next_due(tx, known.number)?).min();
    }
    Ok(next.map(|due| tx.now.until(due)))
}
