//! `adjust_for_clock_step`: corrects leases and due times after the clock was set back.

use tidemill_core::Error;
use tidemill_core::store::ClockStep;
use tidemill_core::wake::Wake;

use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

/// After the clock was set back: limits how long leases last. Every worker that detects the step
/// runs this. The second run changes nothing, and leases extended since stay as they are.
const SHORTEN_LEASES: &str = "UPDATE tidemill_running SET until = ?1 WHERE until > ?1";

/// The same change as advance_due.sql, for the due time in `jobs`. It must run first.
const ADVANCE_DUE_IN_JOBS: &str = "
    UPDATE tidemill_jobs SET due = ?1 WHERE seq IN (
        SELECT seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue, due, seq
        LIMIT ?3)";

/// After the clock was set back: makes jobs due now that were due before the step. They are then
/// ordered by number. No index serves this statement, because clock steps are rare.
const ADVANCE_DUE: &str = "
    UPDATE tidemill_waiting SET due = ?1 WHERE (queue, due, seq) IN (
        SELECT queue, due, seq FROM tidemill_waiting WHERE due > ?1 AND due <= ?2 ORDER BY queue,
        due, seq LIMIT ?3)";

/// How many jobs one transaction makes due again.
const MAX_BATCH_JOBS: usize = 4_096;

pub(crate) async fn adjust_for_clock_step(store: &SqliteStore, step: ClockStep) -> Result<(), Error> {
    let ClockStep { from, lease_limit } = step;
    let leases = move |tx: &mut Tx<'_>| {
        let latest = tx.now.after(lease_limit).0;
        Ok(tx.connection.execute(SHORTEN_LEASES, [latest])?)
    };
    store.write(Cost::change(MAX_BATCH_JOBS), leases).await?;
    let ready = move |tx: &mut Tx<'_>| {
        let (now, limit) = (tx.now.0, MAX_BATCH_JOBS as i64);
        tx.connection.execute(ADVANCE_DUE_IN_JOBS, [now, from.0, limit])?;
        let moved = tx.connection.execute(ADVANCE_DUE, [now, from.0, limit])?;
        tx.wakes.add(Wake::Everything);
        Ok(moved)
    };
    while store.write(Cost::change(MAX_BATCH_JOBS), ready).await? == MAX_BATCH_JOBS {}
    Ok(())
}
