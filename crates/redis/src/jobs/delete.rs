//! Deleting a chain with everything in it.

use tidemill_core::store::{Deleted, reserved_ids};
use tidemill_core::{Error, JobId, Queue, QueueName};

use crate::jobs::locate::Place;
use crate::jobs::{TRIES, keeps_moving};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn delete_chain(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = &chain.chain();
        reserved_ids::check_deletion(chain)?;
        let mut tries = 0;
        while tries < TRIES {
            let Some(place) = self.place_or_record(chain).await? else { return Ok(Deleted::NotFound) };
            let keys = self.keys_of_place(chain, &place);
            let acted = self.act(self.call_at((&self.scripts.delete, &keys), chain, &place), &place).await?;
            match (acted.word.as_str(), acted.about) {
                ("deleted", _) => return Ok(Deleted::Yes),
                ("awaited", Some(waiter)) => match self.who_waits(chain, &waiter).await? {
                    Some(job) => return Ok(Deleted::Awaited(job)),
                    // A registration of nobody is gone now: that is progress, and no try.
                    None => continue,
                },
                _ => {
                    self.missed(chain, &place).await?;
                    tries += 1;
                }
            }
        }
        Err(keeps_moving(chain))
    }

    /// Where a chain's job is or, if only its record is left, where that is.
    async fn place_or_record(&self, chain: &JobId) -> Result<Option<Place>, Error> {
        if let Some(place) = self.locate(chain).await? {
            return Ok(Some(place));
        }
        let record = self.find_record(chain).await?;
        let nowhere = Queue::at_least_once(QueueName::new("none")?);
        Ok(record.map(|_| Place::of_record(self.keys.shard_of(chain), nowhere)))
    }

    /// The job that a registration names, if it does wait. One that does not was left by somebody who died, or
    /// names the chain itself: it is removed.
    async fn who_waits(&self, chain: &JobId, waiter: &str) -> Result<Option<JobId>, Error> {
        let mut parts = waiter.split(' ').skip(1);
        let (mark, job) = (parts.next().unwrap_or_default(), parts.nth(2));
        if let Some(job) = job.and_then(|job| JobId::new(job).ok())
            && job.chain() != *chain
        {
            let place = self.locate_indexed(&job).await?;
            if place.is_some_and(|place| place.mark() == Some(mark)) {
                return Ok(Some(job));
            }
        }
        let shard = self.keys.shard_of(chain);
        let remove = redis::cmd("ZREM").arg(self.keys.waiters(shard)).arg(waiter).take();
        self.link.query::<i64>(shard, &remove).await?;
        Ok(None)
    }
}
