//! `adjust_for_clock_step`: corrects leases and due times after the clock was set back.

use tidemill_core::Error;
use tidemill_core::store::ClockStep;
use tidemill_core::wake::Wake;

use super::ms;
use super::recover::MAX_BATCH_ROWS;
use crate::Inner;
use crate::sql::{ADVANCE_DUE, SHORTEN_LEASES};

impl Inner {
    pub(crate) async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        self.pool.execute(&SHORTEN_LEASES, &[&ms(step.lease_limit)]).await?;
        self.lease_low_water_mark.reset();
        loop {
            let rows = self.pool.query(&ADVANCE_DUE, &[&step.from.0, &MAX_BATCH_ROWS]).await?;
            let moved: i64 = rows.first().map_or(0, |row| row.get("moved"));
            self.bus.publish(Wake::Everything);
            if moved < MAX_BATCH_ROWS {
                return Ok(());
            }
        }
    }
}
