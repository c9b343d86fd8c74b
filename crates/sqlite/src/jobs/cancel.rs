//! `cancel`: cancels a job, whatever its state.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::wake::Wake;

use super::job_row::{JobRow, JobRowState, delete_row, find};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::inspect::find_record;
use crate::runs::{self, PendingTasks};
use crate::store::SqliteStore;

pub(crate) async fn cancel(store: &SqliteStore, job: &JobId) -> Result<Cancelled, Error> {
    reserved_ids::check_removal(job)?;
    let job = job.clone();
    store.write(Cost::change(1), move |tx| cancel_one(tx, &job)).await
}

/// Cancels a job without notifying the run that waits for it: that run itself cancels the job.
pub(crate) fn cancel_for_run(tx: &mut Tx<'_>, job: &JobId) -> Result<(), RequestError> {
    let Some(row) = find(tx, job)? else { return Ok(()) };
    match row.state {
        JobRowState::Blocked | JobRowState::Waiting => {
            row.detach(tx)?;
            delete_row(tx, row.seq)
        }
        JobRowState::Running { .. } => request_cancel(tx, row),
        JobRowState::Dead => Ok(()),
    }
}

fn cancel_one(tx: &mut Tx<'_>, job: &JobId) -> Result<Cancelled, RequestError> {
    let Some(row) = find(tx, job)? else {
        let record = find_record(tx, job)?;
        return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
    };
    match row.state {
        JobRowState::Blocked | JobRowState::Waiting => {
            row.delete(tx)?;
            let mut tasks = PendingTasks::default();
            runs::notify_removed(tx, &row.job, &row.body, &mut tasks)?;
            tasks.create(tx)?;
            Ok(Cancelled::Removed)
        }
        JobRowState::Running { .. } => {
            request_cancel(tx, row)?;
            Ok(Cancelled::Requested)
        }
        JobRowState::Dead => Ok(Cancelled::Ended(JobState::Dead)),
    }
}

/// Marks the lease of a running job as cancelling and wakes its worker.
fn request_cancel(tx: &mut Tx<'_>, row: JobRow) -> Result<(), RequestError> {
    tx.connection.prepare_cached(sql!("jobs/cancel"))?.execute([row.seq])?;
    tx.wakes.add(Wake::Cancel(row.job));
    Ok(())
}
