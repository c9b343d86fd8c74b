//! `adjust_for_clock_step`: corrects leases and due times after the clock was set back.

use tidemill_core::Error;
use tidemill_core::store::ClockStep;
use tidemill_core::wake::Wake;

use crate::connection::{Cost, Tx};
use crate::store::SqliteStore;

/// How many jobs one transaction makes due again.
const MAX_BATCH_JOBS: usize = 4_096;

pub(crate) async fn adjust_for_clock_step(store: &SqliteStore, step: ClockStep) -> Result<(), Error> {
    let ClockStep { from, lease_limit } = step;
    let leases = move |tx: &mut Tx<'_>| {
        let latest = tx.now.after(lease_limit).0;
        Ok(tx.connection.execute(sql!("jobs/shorten_leases"), [latest])?)
    };
    store.write(Cost::change(MAX_BATCH_JOBS), leases).await?;
    let ready = move |tx: &mut Tx<'_>| {
        let (now, limit) = (tx.now.0, MAX_BATCH_JOBS as i64);
        tx.connection.execute(sql!("jobs/advance_due_in_jobs"), [now, from.0, limit])?;
        let moved = tx.connection.execute(sql!("jobs/advance_due"), [now, from.0, limit])?;
        tx.wakes.add(Wake::Everything);
        Ok(moved)
    };
    while store.write(Cost::change(MAX_BATCH_JOBS), ready).await? == MAX_BATCH_JOBS {}
    Ok(())
}
