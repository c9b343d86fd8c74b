//! The end of a run.

use rusqlite::params;
use tidemill_core::store::runs::CloseRun;
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;

use super::alarms;
use super::deliver::deliver_one;
use super::instance::Instance;
use super::task::Wanted;
use crate::call::Tx;
use crate::error::Failure;

/// Ends a run: whoever waits for it is woken, and its parent is told.
pub(super) fn close(
    tx: &mut Tx<'_>,
    (id, run): (&RunId, &Instance),
    close: &CloseRun,
    wanted: &mut Wanted,
) -> Result<(), Failure> {
    alarms::drop_all(tx, run.number)?;
    let expires = tx.now.0.saturating_add(run.keep);
    let mut end = tx.connection.prepare_cached(include_str!("../../sql/runs/close.sql"))?;
    let (status, output) = (close.status.as_str(), &close.output[..]);
    end.execute(params![run.number, status, tx.now.0, expires, output, close.error])?;
    if let Some(told) = &close.notify_parent {
        deliver_one(tx, told, wanted)?;
    }
    tx.announcements.add(Wake::Finished(id.task()));
    Ok(())
}
