//! The end of a run.

use rusqlite::named_params;
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
    UPDATE tidemill_runs
    SET status = :status, closed = :closed, expires = :expires, output = :output, error = :error
    WHERE number = :number";

/// Ends a run, wakes the waiters for its end, and notifies its parent.
pub(super) fn close(
    tx: &mut Tx<'_>,
    id: &RunId,
    run: &RunRow,
    close: &CloseRun,
    tasks: &mut PendingTasks,
) -> Result<(), RequestError> {
    alarms::drop_all(tx, run.number)?;
    let mut end = tx.connection.prepare_cached(CLOSE_RUN)?;
    end.execute(named_params! {
        ":number": run.number,
        ":status": close.status.as_str(),
        ":closed": tx.now.0,
        ":expires": tx.now.0.saturating_add(run.keep),
        ":output": &close.output[..],
        ":error": close.error,
    })?;
    if let Some(notice) = &close.notify_parent {
        deliver_one(tx, notice, tasks)?;
    }
    tx.wakes.add(Wake::Finished(id.task()));
    Ok(())
}
