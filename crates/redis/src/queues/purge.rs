//! Purging a queue: what waits at the call is set apart in one step, and then deleted a few at a time.

use futures_util::future::try_join_all;
use redis::Value;
use tidemill_core::{Error, JobId, Queue};

use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::keys::letter;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::jobs::SCRIPT_BYTES;
use crate::jobs::locate::Place;
use crate::runs::push_removal;
use crate::store::RedisStore;

/// How many jobs one purging script deletes.
const BATCH: usize = 500;

/// A purge of one shard that has begun.
struct Begun {
    shard: u16,
    /// When, by the server's clock, in ms.
    at: i64,
    /// The last entry of the stream that is deleted.
    last: String,
}

/// What one purging script did.
struct Part {
    deleted: u64,
    seen: u64,
    /// The last entry it looked at.
    behind: String,
}

impl RedisStore {
    /// Blocked jobs go first: those that wait for others of this queue would become ready by their end.
    pub(crate) async fn purge_queue(&self, queue: &Queue) -> Result<u64, Error> {
        let begin = |shard| self.begin_purge(shard, queue);
        let (mut purged, mut begun) = (0, Vec::new());
        for (earlier, part) in try_join_all((0..self.keys.shards()).map(begin)).await? {
            purged += earlier;
            begun.push(part);
        }
        for part in &begun {
            purged += self.purge_blocked(part, queue).await?;
        }
        for part in &begun {
            purged += self.complete_purge(part.shard, queue, &part.last).await?;
        }
        Ok(purged)
    }

    /// Sets apart what waits in a shard. What an earlier purge has set apart, and has not deleted, is deleted first; says
    /// how many jobs that were.
    async fn begin_purge(&self, shard: u16, queue: &Queue) -> Result<(u64, Begun), Error> {
        let mut keys = self.keys.home(shard);
        keys.extend([self.keys.target(shard, queue), self.keys.scheduled(shard, queue)]);
        keys.extend([self.keys.purged(shard, queue), self.keys.purged_list(shard, queue)]);
        let mut earlier = 0;
        loop {
            let call = Call::new(&self.scripts.begin_purge, &keys).arg(self.keys.channel());
            let call = call.arg(letter(queue)).arg(queue.name.as_str());
            let answer = array(self.link.call(shard, call).await?).unwrap_or_default();
            if let [at, last, _errand] = &answer[..] {
                let odd = || odd_answer("begin_purge");
                let last = text(last.clone()).ok_or_else(odd)?;
                return Ok((earlier, Begun { shard, at: int(at).ok_or_else(odd)?, last }));
            }
            earlier += self.delete_purged(shard, queue, "0-0").await?;
        }
    }

    async fn purge_blocked(&self, begun: &Begun, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let mut ask = redis::cmd("ZRANGEBYSCORE");
            ask.arg(self.keys.blocked(begun.shard, queue)).arg("-inf").arg(begun.at);
            ask.arg("LIMIT").arg(0).arg(BATCH);
            let members: Vec<String> = self.link.query(begun.shard, &ask).await?;
            let mut removed = 0;
            for member in &members {
                let Some((job, mark)) = member.split_once(' ') else { continue };
                let job = JobId::new(job)?;
                let place = Place::blocked(begun.shard, queue.clone(), (&job, mark));
                removed += u64::from(self.cancel_at(&job, &place).await? == "removed");
            }
            purged += removed;
            if removed == 0 {
                return Ok(purged);
            }
        }
    }

    /// Deletes what a purge that has begun is to delete, and strikes off its errand.
    pub(crate) async fn complete_purge(&self, shard: u16, queue: &Queue, last: &str) -> Result<u64, Error> {
        let purged = self.delete_purged(shard, queue, last).await?;
        let errand = Errand::Purge { queue: queue.clone(), last: last.to_owned() };
        self.forget_errand(shard, &errand).await?;
        Ok(purged)
    }

    async fn delete_purged(&self, shard: u16, queue: &Queue, last: &str) -> Result<u64, Error> {
        let (mut purged, mut behind) = (0, "0-0".to_owned());
        loop {
            let part = self.purge_some(shard, queue, (&behind, last)).await?;
            purged += part.deleted;
            behind = part.behind;
            if part.seen == 0 {
                return Ok(purged);
            }
        }
    }

    /// Deletes a batch: what was set apart, and ready entries between two.
    async fn purge_some(
        &self,
        shard: u16,
        queue: &Queue,
        (behind, last): (&str, &str),
    ) -> Result<Part, Error> {
        let errand = Errand::Purge { queue: queue.clone(), last: last.to_owned() };
        let mut call = self
            .call_on_runs(&self.scripts.purge, shard)
            .arg(letter(queue))
            .arg(queue.name.as_str())
            .arg(BATCH)
            .arg(SCRIPT_BYTES)
            .arg(behind)
            .arg(last)
            .arg(errand.to_string());
        push_removal(&mut call);
        let odd = || odd_answer("purge");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let errands = Errand::all(parts.split_off(parts.len().min(3)));
        self.carry_on(shard, errands).await;
        let [deleted, seen, behind] = &parts[..] else { return Err(odd()) };
        let count = |value: &Value| int(value).map(i64::unsigned_abs).ok_or_else(odd);
        let behind = text(behind.clone()).ok_or_else(odd)?;
        Ok(Part { deleted: count(deleted)?, seen: count(seen)?, behind })
    }
}
