//! The end of a run.

use rusqlite::params;
use tidemill_core::store::runs::CloseRun;
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;

use super::alarms;
use super::deliver::deliver_one;
use super::run_row::RunRow;
use super::task::PendingTasks;
use crate::connection::Tx;
use crate::error::RequestError;

/// Stores the end of a run.
const CLOSE_RUN: &str = "
    UPDATE tidemill_runs SET status = ?2, closed = ?3, expires = ?4, output = ?5, error = ?6
        WHERE number = ?1";

/// Ends a run, wakes the waiters for its end, and notifies its parent.
pub(super) fn close(
    tx: &mut Tx<'_>,
    id: &RunId,
    run: &RunRow,
    close: &CloseRun,
    tasks: &mut PendingTasks,
) -> Result<(), RequestError> {
    alarms::drop_all(tx, run.number)?;
    let expires = tx.now.0.saturating_add(run.keep);
    let mut end = tx.connection.prepare_cached(CLOSE_RUN)?;
    let (status, output) = (close.status.as_str(), &close.output[..]);
    end.execute(params![run.number, status, tx.now.0, expires, output, close.error])?;
    if let Some(notice) = &close.notify_parent {
        deliver_one(tx, notice, tasks)?;
    }
    tx.wakes.add(Wake::Finished(id.task()));
    Ok(())
}
