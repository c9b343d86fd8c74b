//! Ending a job from outside, whatever its lease.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::settle::Change;
use tidemill_core::store::{CompleteParams, Completed, reserved_ids};
use tidemill_core::wake::Wake;

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::inspect::find_record;
use crate::jobs::{Found, Freed, Place, find};
use crate::runs::Wanted;
use crate::store::SqliteStore;

pub(crate) async fn complete(store: &SqliteStore, complete: CompleteParams<'_>) -> Result<Completed, Error> {
    let (job, change) = (complete.job.clone(), complete.change.clone());
    let work = move |tx: &mut Tx<'_>| complete_one(tx, &CompleteParams { job: &job, change: &change });
    store.write(Cost::change(1), work).await
}

pub(crate) fn complete_one(tx: &mut Tx<'_>, complete: &CompleteParams<'_>) -> Result<Completed, Failure> {
    let CompleteParams { job, change } = complete;
    reserved_ids::check_removal(job)?;
    if !matches!(change, Change::Finish(_) | Change::Continue(_) | Change::Deliver(_)) {
        return Err(
            Error::Invalid(format!("job {job} can be finished or continued from outside, no more")).into()
        );
    }
    let found = match look(tx, job)? {
        Ok(found) => found,
        Err(completed) => return Ok(completed),
    };
    found.vacate(tx)?;
    let cancelling = matches!(found.place, Place::Running { cancelling: true, .. });
    let freed = Freed { seq: found.seq, job: &found.job, queue: &found.queue, cancelling };
    let mut wanted = Wanted::default();
    freed.become_of(tx, change, &mut wanted)?;
    wanted.make(tx)?;
    if let Place::Running { .. } = found.place {
        tx.announcements.add(Wake::LeaseLost(found.job));
    }
    Ok(Completed::Yes)
}

/// The job, if it can be completed, or why it cannot.
fn look(tx: &Tx<'_>, job: &JobId) -> Result<Result<Found, Completed>, Failure> {
    let Some(found) = find(tx, job)?.filter(|found| !found.is_forgotten(tx.now)) else {
        let record = find_record(tx, job)?;
        return Ok(Err(record.map_or(Completed::NotFound, |record| Completed::Ended(record.state))));
    };
    Ok(match (job.step(), found.job.step()) {
        (asked, at) if asked < at => Err(Completed::Ended(JobState::Done)),
        (asked, at) if asked > at => Err(Completed::NotFound),
        _ if found.place == Place::Dead => Err(Completed::Ended(JobState::Dead)),
        _ => Ok(found),
    })
}
