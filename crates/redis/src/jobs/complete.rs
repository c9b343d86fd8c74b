//! Completing a job from outside.

use std::cmp::Ordering;

use tidemill_core::job::JobState;
use tidemill_core::settle::Change;
use tidemill_core::store::{CompleteParams, Completed, reserved_ids};
use tidemill_core::{Error, JobId};

use crate::chains::{SettleChanges, check_next_queue};
use crate::jobs::locate::JobLocation;
use crate::jobs::{MAX_ATTEMPTS, keeps_moving_error};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn complete_job(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        let CompleteParams { job, change } = complete;
        reserved_ids::check_removal(job)?;
        if !matches!(change, Change::Finish(_) | Change::Continue(_) | Change::Deliver(_)) {
            return Err(Error::Invalid("a job is completed by finishing or continuing it".into()));
        }
        check_next_queue(change)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(location) = self.locate(job).await? else {
                let record = self.find_record(job).await?;
                return Ok(record.map_or(Completed::NotFound, |record| Completed::Ended(record.state)));
            };
            let Some(current) = self.current_job(job, &location).await? else {
                self.repair_if_lost(job, &location).await?;
                continue;
            };
            match job.step().cmp(&current.step()) {
                Ordering::Less => return Ok(Completed::Ended(JobState::Done)),
                Ordering::Greater => return Ok(Completed::NotFound),
                Ordering::Equal if location.is_dead() => return Ok(Completed::Ended(JobState::Dead)),
                Ordering::Equal => {}
            }
            if self.complete_at((&current, change), &location).await? == "completed" {
                return Ok(Completed::Yes);
            }
            self.repair_if_lost(job, &location).await?;
        }
        Err(keeps_moving_error(job))
    }

    async fn complete_at(
        &self,
        (job, change): (&JobId, &Change),
        location: &JobLocation,
    ) -> Result<String, Error> {
        if let Change::Deliver(delivery) = change {
            return self.complete_activity_at(job, delivery, location).await;
        }
        let shard = location.shard;
        let changes = SettleChanges::prepare(self, shard, std::iter::once((job, change))).await?;
        let mut keys = self.keys_at(job, location);
        keys.push(self.keys.queues(shard));
        let args = self.location_args(job, location).with("change", changes.to_args(0, &mut keys));
        Ok(self.run_action((&self.scripts.complete, &keys), &args, location).await?.status)
    }
}
