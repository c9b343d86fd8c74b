//! `promote`: fires due alarms of runs. Scheduled jobs need no promotion: their place in `waiting`
//! follows from their due time.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::name::Queue;
use tidemill_core::store::{PromoteParams, Promoted};

use super::waiting;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::queues::queue_row;
use crate::runs;
use crate::store::SqliteStore;

pub(crate) async fn promote(store: &SqliteStore, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
    let queues = promote.queues.to_vec();
    let (job, alarm) =
        store.read(move |tx| Ok((until_next_job(tx, &queues)?, until_next_alarm(tx)?))).await?;
    // Most of the time no alarm is due, and the call should not wait for the write lock to learn
    // that.
    let (moved, alarm) = match alarm {
        Some(Duration::ZERO) => fire_alarms(store, promote.limit).await?,
        alarm => (0, alarm),
    };
    Ok(Promoted { moved, next: job.into_iter().chain(alarm).min() })
}

/// Fires due alarms. Returns how many fired, and how long until the next is due.
async fn fire_alarms(store: &SqliteStore, limit: usize) -> Result<(u64, Option<Duration>), Error> {
    let work = move |tx: &mut Tx<'_>| Ok((runs::fire_due_alarms(tx, limit)?, until_next_alarm(tx)?));
    store.write(Cost::change(2 * limit), work).await
}

fn until_next_alarm(tx: &Tx<'_>) -> Result<Option<Duration>, RequestError> {
    Ok(runs::next_alarm(tx)?.map(|due| tx.now.until(due)))
}

fn until_next_job(tx: &Tx<'_>, queues: &[Queue]) -> Result<Option<Duration>, RequestError> {
    let mut next = None;
    for queue in queues {
        let Some(row) = queue_row::find(tx.connection, queue)? else { continue };
        next = next.into_iter().chain(waiting::next_due(tx, row.number)?).min();
    }
    Ok(next.map(|due| tx.now.until(due)))
}
