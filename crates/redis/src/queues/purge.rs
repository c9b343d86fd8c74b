//! Purging a queue: sets all waiting jobs apart in one step, then deletes them in batches.

use futures_util::future::try_join_all;
use redis::Value;
use tidemill_core::{Error, JobId, Queue};

use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::jobs::MAX_SCRIPT_BYTES;
use crate::jobs::locate::JobLocation;
use crate::runs::removed_event;
use crate::store::RedisStore;

/// How many jobs one script deletes.
const MAX_BATCH_JOBS: usize = 500;

/// A purge of one shard that has begun.
struct ShardPurge {
    shard: u16,
    /// The start time by the server's clock, in ms.
    started_ms: i64,
    /// The last entry of the stream to delete.
    last_entry: String,
}

/// The result of one purging script.
struct PurgeBatch {
    deleted: u64,
    seen: u64,
    /// The last entry that was read.
    last_entry: String,
}

impl RedisStore {
    /// Purges blocked jobs first: those that wait for jobs of this queue would otherwise become
    /// ready.
    pub(crate) async fn purge_queue(&self, queue: &Queue) -> Result<u64, Error> {
        let begin = |shard| self.begin_purge(shard, queue);
        let (mut purged, mut purge) = (0, Vec::new());
        for (earlier, part) in try_join_all((0..self.keys.shards()).map(begin)).await? {
            purged += earlier;
            purge.push(part);
        }
        for part in &purge {
            purged += self.purge_blocked(part, queue).await?;
        }
        for part in &purge {
            purged += self.complete_purge(part.shard, queue, &part.last_entry).await?;
        }
        Ok(purged)
    }

    /// Sets the waiting jobs of a shard apart. Deletes first what an earlier purge has left, and
    /// returns how many jobs that were.
    async fn begin_purge(&self, shard: u16, queue: &Queue) -> Result<(u64, ShardPurge), Error> {
        let mut keys = self.keys.shard_keys(shard);
        keys.extend([self.keys.target(shard, queue), self.keys.scheduled(shard, queue)]);
        keys.extend([self.keys.purged(shard, queue), self.keys.purged_list(shard, queue)]);
        let mut earlier = 0;
        loop {
            let args = NamedArgs::new()
                .with("channel", self.keys.channel())
                .with("kind", kind_letter(queue))
                .with("queue", queue.name.as_str());
            let call = ScriptCall::named(&self.scripts.begin_purge, &keys, &args);
            let reply = array(self.connections.call(shard, call).await?).unwrap_or_default();
            if let [at, last, _errand] = &reply[..] {
                let unexpected = || unexpected_reply("begin_purge");
                let last = text(last.clone()).ok_or_else(unexpected)?;
                return Ok((
                    earlier,
                    ShardPurge { shard, started_ms: int(at).ok_or_else(unexpected)?, last_entry: last },
                ));
            }
            earlier += self.delete_purged(shard, queue, "0-0").await?;
        }
    }

    async fn purge_blocked(&self, purge: &ShardPurge, queue: &Queue) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let mut command = redis::cmd("ZRANGEBYSCORE");
            command.arg(self.keys.blocked(purge.shard, queue)).arg("-inf").arg(purge.started_ms);
            command.arg("LIMIT").arg(0).arg(MAX_BATCH_JOBS);
            let members: Vec<String> = self.connections.query(purge.shard, &command).await?;
            let mut removed = 0;
            for member in &members {
                let Some((job, wait_id)) = member.split_once(' ') else { continue };
                let job = JobId::new(job)?;
                let location = JobLocation::blocked(purge.shard, queue.clone(), (&job, wait_id));
                removed += u64::from(self.cancel_at(&job, &location).await? == "removed");
            }
            purged += removed;
            if removed == 0 {
                return Ok(purged);
            }
        }
    }

    /// Completes a purge that has begun, and deletes its outbox entry.
    pub(crate) async fn complete_purge(&self, shard: u16, queue: &Queue, last: &str) -> Result<u64, Error> {
        let purged = self.delete_purged(shard, queue, last).await?;
        let entry = OutboxEntry::Purge { queue: queue.clone(), last: last.to_owned() };
        self.delete_outbox_entry(shard, &entry).await?;
        Ok(purged)
    }

    async fn delete_purged(&self, shard: u16, queue: &Queue, last: &str) -> Result<u64, Error> {
        let (mut purged, mut after) = (0, "0-0".to_owned());
        loop {
            let part = self.purge_batch(shard, queue, (&after, last)).await?;
            purged += part.deleted;
            after = part.last_entry;
            if part.seen == 0 {
                return Ok(purged);
            }
        }
    }

    /// Deletes one batch: jobs set apart, and ready entries between two ids.
    async fn purge_batch(
        &self,
        shard: u16,
        queue: &Queue,
        (after, last): (&str, &str),
    ) -> Result<PurgeBatch, Error> {
        let entry = OutboxEntry::Purge { queue: queue.clone(), last: last.to_owned() };
        let args = NamedArgs::new()
            .with("kind", kind_letter(queue))
            .with("queue", queue.name.as_str())
            .with("limit", MAX_BATCH_JOBS)
            .with("bytes", MAX_SCRIPT_BYTES)
            .with("after", after)
            .with("last", last)
            .with("outbox_entry", entry.to_string())
            .with("removed_event", removed_event());
        let call = self.run_script_call(&self.scripts.purge, shard, args);
        let unexpected = || unexpected_reply("purge");
        let mut parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
        let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(3)));
        self.process_outbox(shard, outbox).await;
        let [deleted, seen, after] = &parts[..] else { return Err(unexpected()) };
        let count = |value: &Value| int(value).map(i64::unsigned_abs).ok_or_else(unexpected);
        let after = text(after.clone()).ok_or_else(unexpected)?;
        Ok(PurgeBatch { deleted: count(deleted)?, seen: count(seen)?, last_entry: after })
    }
}
