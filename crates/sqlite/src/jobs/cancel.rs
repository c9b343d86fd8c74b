//! Cancelling a job, wherever it is.

use rusqlite::OptionalExtension;
use tidemill_core::job::State;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Wake};
use tidemill_core::{Error, Timestamp};

use crate::call::Tx;
use crate::error::Failure;
use crate::inspect::find_record;
use crate::store::SqliteStore;

pub(crate) async fn cancel(store: &SqliteStore, job: &JobId) -> Result<Cancelled, Error> {
    let job = job.clone();
    store.write(1, move |tx| cancel_one(tx, &job)).await
}

/// Where a job is, in as much as cancelling it depends on that.
enum Place {
    Waiting { queue: i64, due: i64, seq: i64 },
    Running { seq: i64 },
    Dead,
}

fn cancel_one(tx: &mut Tx<'_>, job: &JobId) -> Result<Cancelled, Failure> {
    match find(tx, job)? {
        Some(Place::Waiting { queue, due, seq }) => {
            let leave = include_str!("../../sql/jobs/leave.sql");
            tx.connection.prepare_cached(leave)?.execute([queue, due, seq])?;
            tx.connection.prepare_cached(include_str!("../../sql/jobs/finish.sql"))?.execute([seq])?;
            tx.announcements.add(Wake::Finished(job.clone()));
            Ok(Cancelled::Removed)
        }
        Some(Place::Running { seq }) => {
            tx.connection.prepare_cached(include_str!("../../sql/jobs/cancel.sql"))?.execute([seq])?;
            tx.announcements.add(Wake::Cancel(job.clone()));
            Ok(Cancelled::Requested)
        }
        Some(Place::Dead) => Ok(Cancelled::Ended(State::Dead)),
        None => {
            Ok(find_record(tx, job)?.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)))
        }
    }
}

fn find(tx: &Tx<'_>, job: &JobId) -> Result<Option<Place>, Failure> {
    let mut find = tx.connection.prepare_cached(include_str!("../../sql/jobs/find.sql"))?;
    let place = find.query_row([job.as_str()], |row| {
        let (seq, until) = (row.get(0)?, row.get::<_, Option<i64>>(5)?.map(Timestamp));
        Ok(match (row.get::<_, Option<i64>>(2)?, until) {
            (Some(_), _) => Place::Dead,
            (None, Some(_)) => Place::Running { seq },
            (None, None) => Place::Waiting { queue: row.get(8)?, due: row.get(1)?, seq },
        })
    });
    Ok(place.optional()?)
}
