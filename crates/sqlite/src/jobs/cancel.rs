//! Cancelling a job, wherever it is.

use tidemill_core::Error;
use tidemill_core::job::State;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Wake};

use super::find::{Place, find};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::inspect::find_record;
use crate::store::SqliteStore;

pub(crate) async fn cancel(store: &SqliteStore, job: &JobId) -> Result<Cancelled, Error> {
    let job = job.clone();
    store.write(Cost::Change(1), move |tx| cancel_one(tx, &job)).await
}

fn cancel_one(tx: &mut Tx<'_>, job: &JobId) -> Result<Cancelled, Failure> {
    let Some(found) = find(tx, job)? else {
        let record = find_record(tx, job)?;
        return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
    };
    match found.place {
        Place::Blocked | Place::Waiting => {
            found.remove(tx)?;
            Ok(Cancelled::Removed)
        }
        Place::Running { .. } => {
            let cancel = include_str!("../../sql/jobs/cancel.sql");
            tx.connection.prepare_cached(cancel)?.execute([found.seq])?;
            tx.announcements.add(Wake::Cancel(found.job));
            Ok(Cancelled::Requested)
        }
        Place::Dead => Ok(Cancelled::Ended(State::Dead)),
    }
}
