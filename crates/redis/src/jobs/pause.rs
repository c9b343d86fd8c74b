//! Pausing, resuming and purging a queue.

use tidemill_core::store::Wake;
use tidemill_core::{Delivery, Error, JobId, Queue};

use crate::chains::errand::Errand;
use crate::error::odd_answer;
use crate::keys::{letter, member};
use crate::link::Call;
use crate::runs::push_removal;
use crate::search::Place;
use crate::store::RedisStore;
use crate::value::{array, int, text};

/// How many jobs one purging script deletes.
const PURGE_BATCH: usize = 500;

impl RedisStore {
    pub(crate) async fn pause_queue(&self, queue: &Queue) -> Result<(), Error> {
        for shard in 0..self.keys.shards() {
            let paused = self.keys.paused(shard, queue);
            match queue.delivery {
                Delivery::AtLeastOnce => {
                    let keys = [self.keys.target(shard, queue), paused];
                    let call = Call::new(&self.scripts.pause, &keys).arg(self.group(queue));
                    self.link.call(shard, call).await?;
                }
                Delivery::AtMostOnce => {
                    self.link.query::<()>(shard, redis::cmd("SET").arg(paused).arg(1)).await?;
                }
            }
            let member = member(queue);
            self.link
                .query::<i64>(shard, redis::cmd("SADD").arg(self.keys.queues(shard)).arg(member))
                .await?;
        }
        self.note_paused(queue, true);
        self.announce(queue).await
    }

    pub(crate) async fn resume_queue(&self, queue: &Queue) -> Result<(), Error> {
        for shard in 0..self.keys.shards() {
            let paused = self.keys.paused(shard, queue);
            match queue.delivery {
                Delivery::AtLeastOnce => {
                    let keys = [self.keys.target(shard, queue), paused];
                    let call = Call::new(&self.scripts.resume, &keys).arg(self.group(queue));
                    self.link.call(shard, call).await?;
                }
                Delivery::AtMostOnce => {
                    self.link.query::<i64>(shard, redis::cmd("DEL").arg(paused)).await?;
                }
            }
        }
        self.note_paused(queue, false);
        self.announce(queue).await
    }

    async fn announce(&self, queue: &Queue) -> Result<(), Error> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.keys.channel()).arg(Wake::everyone(queue.clone()).to_string());
        self.link.query::<i64>(0, &publish).await.map(drop)
    }

    /// Blocked jobs go first: those that wait for others of this queue would become ready by their end.
    pub(crate) async fn purge_queue(&self, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        for shard in 0..self.keys.shards() {
            purged += self.purge_blocked(shard, queue).await?;
        }
        for shard in 0..self.keys.shards() {
            purged += self.purge_waiting(shard, queue).await?;
        }
        Ok(purged)
    }

    /// Passes over what stays. While it does, a scheduled job may become ready and another take its place, so it begins
    /// anew as long as there was something to delete.
    async fn purge_waiting(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let (mut deleted, mut passed, mut behind) = (0, 0, "0-0".to_owned());
            loop {
                let part = self.purge_some(shard, queue, (passed, behind)).await?;
                deleted += part.deleted;
                passed += part.kept;
                behind = part.last;
                if part.seen == 0 {
                    break;
                }
            }
            purged += deleted;
            if deleted == 0 || passed == 0 {
                return Ok(purged);
            }
        }
    }

    async fn purge_blocked(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let mut ask = redis::cmd("ZRANGE");
            ask.arg(self.keys.blocked(shard, queue)).arg(0).arg(PURGE_BATCH - 1);
            let members: Vec<String> = self.link.query(shard, &ask).await?;
            let mut removed = 0;
            for member in &members {
                let Some((job, mark)) = member.split_once(' ') else { continue };
                let job = JobId::new(job)?;
                let place = Place::blocked(shard, queue.clone(), (&job, mark));
                removed += u64::from(self.cancel_at(&job, &place).await? == "removed");
            }
            purged += removed;
            if removed == 0 {
                return Ok(purged);
            }
        }
    }

    /// Purges a batch, passing over this many scheduled jobs and what is ready up to an entry.
    async fn purge_some(
        &self,
        shard: u16,
        queue: &Queue,
        (passed, behind): (u64, String),
    ) -> Result<Part, Error> {
        let mut call = self
            .call_on_runs(&self.scripts.purge, shard)
            .arg(letter(queue))
            .arg(queue.name.as_str())
            .arg(PURGE_BATCH)
            .arg(passed)
            .arg(behind);
        push_removal(&mut call);
        let odd = || odd_answer("purge");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let errands = Errand::all(parts.split_off(parts.len().min(4)));
        self.carry_on(shard, errands).await;
        let [deleted, seen, kept, last] = &parts[..] else { return Err(odd()) };
        let count = |value| int(value).map(i64::unsigned_abs).ok_or_else(odd);
        let last = text(last.clone()).ok_or_else(odd)?;
        Ok(Part { deleted: count(deleted)?, seen: count(seen)?, kept: count(kept)?, last })
    }
}

/// What one purging script did.
struct Part {
    deleted: u64,
    seen: u64,
    /// How many scheduled jobs stay.
    kept: u64,
    /// The last entry it looked at.
    last: String,
}
