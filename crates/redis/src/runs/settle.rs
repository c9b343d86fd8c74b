//! Settlements that concern runs.

use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::Delivery;
use tidemill_core::{Error, JobId};

use super::effects::delivery_args;
use crate::jobs::locate::JobLocation;
use crate::store::RedisStore;

/// Whether a settlement may concern a run: requeueing a cancelled activity removes it.
pub(crate) fn concerns_run(settlement: &Settlement) -> bool {
    match settlement.change {
        Change::Commit(_) | Change::Deliver(_) => true,
        Change::Requeue { .. } => settlement.lease.job.is_activity(),
        _ => false,
    }
}

impl RedisStore {
    /// Completes a job at its location from outside, and delivers the event to its run.
    pub(crate) async fn complete_activity_at(
        &self,
        job: &JobId,
        delivery: &Delivery,
        location: &JobLocation,
    ) -> Result<String, Error> {
        let args = self
            .location_args(job, location)
            .with("context", self.run_context())
            .with("delivery", delivery_args(delivery));
        let keys = self.keys_at(job, location);
        match self.run_action((&self.scripts.complete_activity, &keys), &args, location).await?.status {
            word if word == "damaged" => Err(self.damaged_run(&delivery.run)),
            word => Ok(word),
        }
    }
}
