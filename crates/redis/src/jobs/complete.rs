//! Completing a job from outside.

use std::cmp::Ordering;

use tidemill_core::job::JobState;
use tidemill_core::settle::Change;
use tidemill_core::store::{CompleteParams, Completed, reserved_ids};
use tidemill_core::{Error, JobId, Queue};

use crate::chains::{SettleChanges, next_queue};
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
        let next = next_queue(change)?;
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
            if self.complete_at((&current, change), &location, next).await? == "completed" {
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
        next: Option<&Queue>,
    ) -> Result<String, Error> {
        if let Change::Deliver(delivery) = change {
            return self.complete_activity_at(job, delivery, location).await;
        }
        let shard = location.shard;
        let changes = SettleChanges::prepare(self, shard, std::iter::once((job, change))).await?;
        let mut keys = self.keys_at(job, location);
        keys.extend(self.next_queue_keys(shard, next.unwrap_or(&location.queue)));
        changes.push_keys(&mut keys, 0);
        let mut call = self.call_at((&self.scripts.complete, &keys), job, location);
        call.push(next.map_or("", |queue| queue.name.as_str()));
        changes.push_args(&mut call, 0);
        Ok(self.run_action(call, location).await?.status)
    }

    /// The keys of the queue on which a chain continues, after the registry of queues.
    pub(crate) fn next_queue_keys(&self, shard: u16, queue: &Queue) -> [String; 4] {
        let queue = &Queue::at_least_once(queue.name.clone());
        [
            self.keys.queues(shard),
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
        ]
    }
}
