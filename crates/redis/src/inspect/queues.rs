//! The queues there are, and what is in them.

use redis::{Pipeline, Value};
use tidemill_core::store::{COUNT_CAP, QueueInfo};
use tidemill_core::{Delivery, Error, Queue, QueueName};

use crate::error::classify;
use crate::keys::member;
use crate::store::RedisStore;
use crate::value::{array, int};

impl RedisStore {
    /// The queues known to one shard, read in pages.
    pub(crate) async fn names_of_queues(&self, shard: u16) -> Result<Vec<Queue>, Error> {
        let (mut queues, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan =
                redis::cmd("SSCAN").arg(self.keys.queues(shard)).arg(&cursor).arg("COUNT").arg(1_000).take();
            let (next, members): (String, Vec<String>) = self.link.query(shard, &scan).await?;
            queues.extend(members.iter().filter_map(|member| parse(member)));
            if next == "0" {
                return Ok(queues);
            }
            cursor = next;
        }
    }

    /// Adds queues to the registry of every shard.
    pub(crate) async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        for shard in 0..self.keys.shards() {
            let mut add = redis::cmd("SADD");
            add.arg(self.keys.queues(shard));
            for queue in queues {
                add.arg(member(queue));
            }
            self.link.query::<i64>(shard, &add).await?;
        }
        Ok(())
    }

    pub(crate) async fn known_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let mut infos: Vec<QueueInfo> = Vec::new();
        for shard in 0..self.keys.shards() {
            for queue in self.names_of_queues(shard).await? {
                let part = self.count(shard, queue).await?;
                match infos.iter_mut().find(|info| info.queue == part.queue) {
                    Some(info) => add(info, &part),
                    None => infos.push(part),
                }
            }
        }
        infos.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok(infos)
    }

    async fn count(&self, shard: u16, queue: Queue) -> Result<QueueInfo, Error> {
        let target = self.keys.target(shard, &queue);
        let length = if queue.delivery == Delivery::AtLeastOnce { "XLEN" } else { "LLEN" };
        let mut batch = Pipeline::new();
        batch.cmd(length).arg(&target);
        batch.cmd("ZCARD").arg(self.keys.scheduled(shard, &queue));
        batch.cmd("XLEN").arg(self.keys.dlq(shard, &queue));
        batch.cmd("EXISTS").arg(self.keys.paused(shard, &queue));
        batch.cmd("HLEN").arg(self.keys.running(shard, &queue));
        batch.cmd("HLEN").arg(self.keys.dropped(shard, &queue));
        batch.cmd("ZCARD").arg(self.keys.blocked(shard, &queue));
        let answer = self.link.pipeline(shard, &batch).await.map_err(|error| classify("counting", error))?;
        let number = |position: usize| {
            answer.get(position).and_then(int).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        let (length, scheduled, dead, paused) = (number(0), number(1), number(2), number(3) == 1);
        let (ready, running) = match queue.delivery {
            Delivery::AtMostOnce => (length.saturating_sub(number(5)), number(4)),
            Delivery::AtLeastOnce => {
                let pending = self.pending(shard, &queue).await;
                (length.saturating_sub(pending), pending)
            }
        };
        let cap = |count: u64| count.min(COUNT_CAP);
        let (ready, scheduled, running, dead) = (cap(ready), cap(scheduled), cap(running), cap(dead));
        Ok(QueueInfo { queue, ready, scheduled, blocked: cap(number(6)), running, dead, paused })
    }

    /// Entries that are leased; none if the group does not exist yet.
    async fn pending(&self, shard: u16, queue: &Queue) -> u64 {
        let ask = redis::cmd("XPENDING").arg(self.keys.target(shard, queue)).arg(self.group(queue)).take();
        let answer = self.link.send(shard, &ask).await.unwrap_or(Value::Nil);
        let count = array(answer).and_then(|parts| parts.first().and_then(int));
        count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }
}

fn add(info: &mut QueueInfo, part: &QueueInfo) {
    info.ready += part.ready;
    info.scheduled += part.scheduled;
    info.blocked += part.blocked;
    info.running += part.running;
    info.dead += part.dead;
    info.paused |= part.paused;
}

fn parse(member: &str) -> Option<Queue> {
    let (letter, name) = member.split_once(' ')?;
    let delivery = match letter {
        "s" => Delivery::AtLeastOnce,
        "l" => Delivery::AtMostOnce,
        _ => return None,
    };
    Some(Queue { name: QueueName::new(name).ok()?, delivery })
}
