//! Listing queues with their numbers of jobs.

use std::time::Duration;

use tidemill_core::store::{COUNT_CAP, QueueInfo};
use tidemill_core::{Error, Guarantee, Queue, QueueName};

use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::connection::reply::{array, int, text};
use crate::store::RedisStore;

/// How long one shard of several has to count its queues.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

impl RedisStore {
    /// The registered queues of one shard.
    pub(crate) async fn registered_queues(&self, shard: u16) -> Result<Vec<Queue>, Error> {
        let (mut queues, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan =
                redis::cmd("SSCAN").arg(self.keys.queues(shard)).arg(&cursor).arg("COUNT").arg(1_000).take();
            let (next, members): (String, Vec<String>) = self.connections.query(shard, &scan).await?;
            queues.extend(members.iter().filter_map(|member| parse(member)));
            if next == "0" {
                return Ok(queues);
            }
            cursor = next;
        }
    }
    /// The queues of all reachable shards. If a shard fails, each queue reports a problem.
    pub(crate) async fn queue_infos(&self) -> Result<Vec<QueueInfo>, Error> {
        let parts = self.each_shard(COUNT_TIMEOUT, |shard| self.count_shard(shard)).await.any()?;
        let mut infos: Vec<QueueInfo> = Vec::new();
        for part in parts.replies.into_iter().flat_map(|(_, part)| part) {
            match infos.iter_mut().find(|info| info.queue == part.queue) {
                Some(info) => add(info, &part),
                None => infos.push(part),
            }
        }
        for info in &mut infos {
            info.problems.extend(parts.failures.iter().map(|(shard, error)| uncounted_shard(*shard, error)));
        }
        infos.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok(infos)
    }

    async fn count_shard(&self, shard: u16) -> Result<Vec<QueueInfo>, Error> {
        let mut infos = Vec::new();
        for queue in self.registered_queues(shard).await? {
            infos.push(self.count(shard, queue).await?);
        }
        Ok(infos)
    }

    async fn count(&self, shard: u16, queue: Queue) -> Result<QueueInfo, Error> {
        let keys = [
            self.keys.target(shard, &queue),
            self.keys.scheduled(shard, &queue),
            self.keys.dlq(shard, &queue),
            self.keys.paused(shard, &queue),
            self.keys.running(shard, &queue),
            self.keys.dropped(shard, &queue),
            self.keys.blocked(shard, &queue),
        ];
        let call =
            ScriptCall::new(&self.scripts.count, &keys).arg(kind_letter(&queue)).arg(self.group(&queue));
        let reply = array(self.connections.call(shard, call).await?).unwrap_or_default();
        let number = |position: usize| {
            reply.get(position).and_then(int).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        let count = |position: usize| number(position).min(COUNT_CAP);
        let mut problems: Vec<String> =
            reply.iter().skip(7).filter_map(|key| text(key.clone())).map(|key| damaged(&key)).collect();
        if number(6) == 1 {
            problems.push(lost_position(&keys[3], &queue));
        }
        Ok(QueueInfo {
            queue,
            ready: count(0),
            scheduled: count(1),
            blocked: count(2),
            running: count(3),
            dead: count(4),
            paused: number(5) == 1,
            problems,
        })
    }
}

fn add(info: &mut QueueInfo, part: &QueueInfo) {
    info.ready += part.ready;
    info.scheduled += part.scheduled;
    info.blocked += part.blocked;
    info.running += part.running;
    info.dead += part.dead;
    info.paused |= part.paused;
    info.problems.extend(part.problems.iter().cloned());
}

fn uncounted_shard(shard: u16, error: &Error) -> String {
    format!("the jobs of shard {shard} are not counted: {}", error.full_message())
}

fn damaged(key: &str) -> String {
    format!("`{key}` holds something else than it should and is not counted")
}

fn lost_position(key: &str, queue: &Queue) -> String {
    let name = &queue.name;
    format!(
        "the queue is paused and `{key}`, which remembers its position, was deleted or overwritten: \
         `tidemill queue resume {name}` goes on behind the last entry that is held"
    )
}

fn parse(member: &str) -> Option<Queue> {
    let (letter, name) = member.split_once(' ')?;
    let guarantee = match letter {
        "s" => Guarantee::AtLeastOnce,
        "l" => Guarantee::AtMostOnce,
        _ => return None,
    };
    Some(Queue { name: QueueName::new(name).ok()?, guarantee })
}
