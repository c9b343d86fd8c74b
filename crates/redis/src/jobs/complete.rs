//! Ending a job from outside.

use std::cmp::Ordering;

use tidemill_core::job::JobState;
use tidemill_core::settle::Change;
use tidemill_core::store::{CompleteParams, Completed, reserved_ids};
use tidemill_core::{Error, JobId, Queue};

use crate::chains::{Changes, next_queue};
use crate::jobs::locate::Place;
use crate::jobs::{TRIES, keeps_moving};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn complete_job(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        let CompleteParams { job, change } = complete;
        reserved_ids::check_removal(job)?;
        if !matches!(change, Change::Finish(_) | Change::Continue(_) | Change::Deliver(_)) {
            return Err(Error::Invalid("a job is completed by finishing or continuing it".into()));
        }
        let next = next_queue(change)?;
        for _ in 0..TRIES {
            let Some(place) = self.locate(job).await? else {
                let record = self.find_record(job).await?;
                return Ok(record.map_or(Completed::NotFound, |record| Completed::Ended(record.state)));
            };
            let Some(current) = self.current_job(job, &place).await? else {
                self.missed(job, &place).await?;
                continue;
            };
            match job.step().cmp(&current.step()) {
                Ordering::Less => return Ok(Completed::Ended(JobState::Done)),
                Ordering::Greater => return Ok(Completed::NotFound),
                Ordering::Equal if place.is_dead() => return Ok(Completed::Ended(JobState::Dead)),
                Ordering::Equal => {}
            }
            if self.complete_at((&current, change), &place, next).await? == "completed" {
                return Ok(Completed::Yes);
            }
            self.missed(job, &place).await?;
        }
        Err(keeps_moving(job))
    }

    async fn complete_at(
        &self,
        (job, change): (&JobId, &Change),
        place: &Place,
        next: Option<&Queue>,
    ) -> Result<String, Error> {
        if let Change::Deliver(delivery) = change {
            return self.answer_at(job, delivery, place).await;
        }
        let shard = place.shard;
        let changes = Changes::of(self, shard, std::iter::once((job, change))).await?;
        let mut keys = self.keys_of_place(job, place);
        keys.extend(self.keys_of_next(shard, next.unwrap_or(&place.queue)));
        changes.push_keys(&mut keys, 0);
        let mut call = self.call_at((&self.scripts.complete, &keys), job, place);
        call.push(next.map_or("", |queue| queue.name.as_str()));
        changes.push_args(&mut call, 0);
        Ok(self.act(call, place).await?.word)
    }

    /// The keys of the queue on which a chain goes on, behind the registry of queues.
    pub(crate) fn keys_of_next(&self, shard: u16, queue: &Queue) -> [String; 4] {
        let queue = &Queue::at_least_once(queue.name.clone());
        [
            self.keys.queues(shard),
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
        ]
    }
}
