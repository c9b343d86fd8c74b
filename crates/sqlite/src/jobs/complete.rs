//! `complete`: ends a job from outside, whatever its lease.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::settle::Change;
use tidemill_core::store::{CompleteParams, Completed, reserved_ids};
use tidemill_core::wake::Wake;

use super::detached_job::DetachedJob;
use super::job_row::{JobRow, JobRowState, find};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::inspect::find_record;
use crate::runs::PendingTasks;
use crate::store::SqliteStore;

pub(crate) async fn complete(store: &SqliteStore, complete: CompleteParams<'_>) -> Result<Completed, Error> {
    let (job, change) = (complete.job.clone(), complete.change.clone());
    let work = move |tx: &mut Tx<'_>| complete_one(tx, &CompleteParams { job: &job, change: &change });
    store.write(Cost::change(1), work).await
}

pub(crate) fn complete_one(
    tx: &mut Tx<'_>,
    complete: &CompleteParams<'_>,
) -> Result<Completed, RequestError> {
    let CompleteParams { job, change } = complete;
    reserved_ids::check_removal(job)?;
    if !matches!(change, Change::Finish(_) | Change::Continue(_) | Change::Deliver(_)) {
        return Err(
            Error::Invalid(format!("job {job} can only be finished or continued from outside")).into()
        );
    }
    let row = match find_completable(tx, job)? {
        Ok(row) => row,
        Err(completed) => return Ok(completed),
    };
    row.detach(tx)?;
    let cancelling = matches!(row.state, JobRowState::Running { cancelling: true, .. });
    let detached = DetachedJob { seq: row.seq, job: &row.job, queue: &row.queue, cancelling };
    let mut tasks = PendingTasks::default();
    detached.apply(tx, change, &mut tasks)?;
    tasks.create(tx)?;
    if let JobRowState::Running { .. } = row.state {
        tx.wakes.add(Wake::LeaseLost(row.job));
    }
    Ok(Completed::Yes)
}

/// The job, if it can be completed, or the reason why it cannot.
fn find_completable(tx: &Tx<'_>, job: &JobId) -> Result<Result<JobRow, Completed>, RequestError> {
    let Some(row) = find(tx, job)?.filter(|row| !row.is_expired_at_most_once(tx.now)) else {
        let record = find_record(tx, job)?;
        return Ok(Err(record.map_or(Completed::NotFound, |record| Completed::Ended(record.state))));
    };
    Ok(match (job.step(), row.job.step()) {
        (requested, current) if requested < current => Err(Completed::Ended(JobState::Done)),
        (requested, current) if requested > current => Err(Completed::NotFound),
        _ if row.state == JobRowState::Dead => Err(Completed::Ended(JobState::Dead)),
        _ => Ok(row),
    })
}
