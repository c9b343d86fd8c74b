//! Cancelling a job, wherever it is.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::wake::Wake;

use super::find::{Found, Place, find, remove_row};
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::inspect::find_record;
use crate::runs::{self, Wanted};
use crate::store::SqliteStore;

pub(crate) async fn cancel(store: &SqliteStore, job: &JobId) -> Result<Cancelled, Error> {
    reserved_ids::check_removal(job)?;
    let job = job.clone();
    store.write(Cost::change(1), move |tx| cancel_one(tx, &job)).await
}

/// Cancels a job of which nobody is told if it was waiting: whoever wants this knows.
pub(crate) fn cancel_silently(tx: &mut Tx<'_>, job: &JobId) -> Result<(), Failure> {
    let Some(found) = find(tx, job)? else { return Ok(()) };
    match found.place {
        Place::Blocked | Place::Waiting => {
            found.vacate(tx)?;
            remove_row(tx, found.seq)
        }
        Place::Running { .. } => request(tx, found),
        Place::Dead => Ok(()),
    }
}

fn cancel_one(tx: &mut Tx<'_>, job: &JobId) -> Result<Cancelled, Failure> {
    let Some(found) = find(tx, job)? else {
        let record = find_record(tx, job)?;
        return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
    };
    match found.place {
        Place::Blocked | Place::Waiting => {
            found.remove(tx)?;
            let mut wanted = Wanted::default();
            runs::tell_of_removed(tx, &found.job, &found.body, &mut wanted)?;
            wanted.make(tx)?;
            Ok(Cancelled::Removed)
        }
        Place::Running { .. } => {
            request(tx, found)?;
            Ok(Cancelled::Requested)
        }
        Place::Dead => Ok(Cancelled::Ended(JobState::Dead)),
    }
}

/// Tells the worker of a running job that it is not wanted any more.
fn request(tx: &mut Tx<'_>, found: Found) -> Result<(), Failure> {
    tx.connection.prepare_cached(include_str!("../../sql/jobs/cancel.sql"))?.execute([found.seq])?;
    tx.announcements.add(Wake::Cancel(found.job));
    Ok(())
}
