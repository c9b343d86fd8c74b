//! Cancelling a job: locates it, then cancels it if it is still there.

use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::{Error, JobId};

use crate::jobs::locate::JobLocation;
use crate::jobs::{MAX_ATTEMPTS, keeps_moving_error};
use crate::runs::removed_event;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn cancel_job(&self, job: &JobId) -> Result<Cancelled, Error> {
        reserved_ids::check_removal(job)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(location) = self.locate(job).await? else {
                if self.cancel_untracked(job).await? {
                    return Ok(Cancelled::Requested);
                }
                let record = self.find_record(job).await?;
                return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
            };
            if location.is_dead() {
                return Ok(Cancelled::Ended(JobState::Dead));
            }
            match self.cancel_at(job, &location).await?.as_str() {
                "removed" => return Ok(Cancelled::Removed),
                "requested" => return Ok(Cancelled::Requested),
                _ => self.repair_if_lost(job, &location).await?,
            }
        }
        Err(keeps_moving_error(job))
    }

    /// Cancels a job at its location; returns `removed`, `requested` or `moved`.
    pub(crate) async fn cancel_at(&self, job: &JobId, location: &JobLocation) -> Result<String, Error> {
        let keys = self.keys_at(job, location);
        let args = self
            .location_args(job, location)
            .with("context", self.run_context())
            .with("removed_event", removed_event());
        Ok(self.run_action((&self.scripts.cancel, &keys), &args, location).await?.status)
    }
}
