//! Deleting a chain and all its data.

use tidemill_core::store::{Deleted, reserved_ids};
use tidemill_core::{Error, JobId, Queue, QueueName};

use crate::jobs::locate::JobLocation;
use crate::jobs::{MAX_ATTEMPTS, keeps_moving_error};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn delete_chain(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = &chain.chain();
        reserved_ids::check_deletion(chain)?;
        let mut tries = 0;
        while tries < MAX_ATTEMPTS {
            let Some(location) = self.location_or_record(chain).await? else { return Ok(Deleted::NotFound) };
            let keys = self.keys_at(chain, &location);
            let args = self.location_args(chain, &location);
            let reply = self.run_action((&self.scripts.delete, &keys), &args, &location).await?;
            match (reply.status.as_str(), reply.waiter) {
                ("deleted", _) => return Ok(Deleted::Yes),
                ("awaited", Some(waiter)) => match self.waiting_job(chain, &waiter).await? {
                    Some(job) => return Ok(Deleted::Awaited(job)),
                    // A stale registration has been removed: that is progress, not an attempt.
                    None => continue,
                },
                _ => {
                    self.repair_if_lost(chain, &location).await?;
                    tries += 1;
                }
            }
        }
        Err(keeps_moving_error(chain))
    }

    /// The location of a chain's job or, if only its record is left, of the record.
    async fn location_or_record(&self, chain: &JobId) -> Result<Option<JobLocation>, Error> {
        if let Some(location) = self.locate(chain).await? {
            return Ok(Some(location));
        }
        let record = self.find_record(chain).await?;
        let no_queue = Queue::at_least_once(QueueName::new("none")?);
        Ok(record.map(|_| JobLocation::record_only(self.keys.shard_of(chain), no_queue)))
    }

    /// The job of a registration, if it is blocked. A registration left by a dead process, or of
    /// the chain itself, is removed.
    async fn waiting_job(&self, chain: &JobId, waiter: &str) -> Result<Option<JobId>, Error> {
        let mut parts = waiter.split(' ').skip(1);
        let (wait_id, job) = (parts.next().unwrap_or_default(), parts.nth(2));
        if let Some(job) = job.and_then(|job| JobId::new(job).ok())
            && job.chain() != *chain
        {
            let location = self.locate_indexed(&job).await?;
            if location.is_some_and(|location| location.wait_id() == Some(wait_id)) {
                return Ok(Some(job));
            }
        }
        let shard = self.keys.shard_of(chain);
        let remove = redis::cmd("ZREM").arg(self.keys.waiters(shard)).arg(waiter).take();
        self.connections.query::<i64>(shard, &remove).await?;
        Ok(None)
    }
}
