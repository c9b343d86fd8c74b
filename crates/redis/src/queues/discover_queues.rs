//! Finding queues that only other programs have filled.

use std::collections::HashSet;
use std::time::Duration;

use redis::Pipeline;
use tidemill_core::workflow::WORKFLOW_QUEUE;
use tidemill_core::{Error, Guarantee, Queue, QueueName};

use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::text;
use crate::error::classify;
use crate::store::RedisStore;

/// Matches `stream:*`, `queue:*` and `workflow:*`, and little else: a pattern has no alternatives.
const FAMILIES: &str = "[sqw][tuo][er][eku][aef]*:*";

/// How many keys the server looks at in one call: a fraction of a millisecond.
const SCAN_COUNT: usize = 1_000;

/// How many calls a search makes in a shard. Queues behind the first million keys are not found.
const MAX_SCAN_CALLS: usize = 1_000;

/// How long one shard has to be searched.
const SCAN_TIMEOUT: Duration = Duration::from_secs(5);

impl RedisStore {
    /// Registers queues whose keys exist and that are not registered.
    pub(crate) async fn discover_queues(&self) -> Result<Vec<Queue>, Error> {
        let found = self.each_shard(SCAN_TIMEOUT, |shard| self.unregistered_queues(shard)).await.any()?;
        let found: HashSet<Queue> = found.replies.into_iter().flat_map(|(_, queues)| queues).collect();
        let mut found: Vec<Queue> = found.into_iter().collect();
        found.sort();
        if found.is_empty() {
            return Ok(found);
        }
        // One shard is enough: a listing asks all.
        match self.each_shard(SHARD_TIMEOUT, |shard| self.register_in(shard, &found)).await.any() {
            Err(Error::Denied(_)) => Ok(Vec::new()),
            registered => registered.map(|_| found),
        }
    }

    async fn unregistered_queues(&self, shard: u16) -> Result<Vec<Queue>, Error> {
        let keys = match self.scan_queue_keys(shard).await {
            // A user need not have the right to scan.
            Err(Error::Denied(_)) => return Ok(Vec::new()),
            keys => keys?,
        };
        let known: HashSet<Queue> = self.registered_queues(shard).await?.into_iter().collect();
        let mut found: Vec<(String, Queue)> = keys
            .into_iter()
            .filter_map(|key| self.parse_queue_key(shard, &key).map(|queue| (key, queue)))
            .filter(|(_, queue)| !known.contains(queue))
            .collect();
        self.keep_sound_types(shard, &mut found).await?;
        Ok(found.into_iter().map(|(_, queue)| queue).collect())
    }

    async fn scan_queue_keys(&self, shard: u16) -> Result<Vec<String>, Error> {
        let pattern = format!("{}{FAMILIES}", self.keys.prefix_pattern(shard));
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        for _ in 0..MAX_SCAN_CALLS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
            let (next, page): (String, Vec<String>) = self.connections.query(shard, &scan).await?;
            keys.extend(page);
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(keys)
    }

    /// The queue whose jobs are ready under this key.
    fn parse_queue_key(&self, shard: u16, key: &str) -> Option<Queue> {
        let (family, name) = key.strip_prefix(self.keys.prefix(shard))?.split_once(':')?;
        let (guarantee, name) = match family {
            "stream" => (Guarantee::AtLeastOnce, name.to_owned()),
            "queue" => (Guarantee::AtMostOnce, name.to_owned()),
            "workflow" => (Guarantee::AtLeastOnce, format!("{WORKFLOW_QUEUE}{}", name.replace(':', "/"))),
            _ => return None,
        };
        let queue = Queue { name: QueueName::new(&name).ok()?, guarantee };
        // Not the key of a part, such as that of its dead letters.
        (self.keys.target(shard, &queue) == key).then_some(queue)
    }

    /// Drops keys that hold something else than jobs.
    async fn keep_sound_types(&self, shard: u16, found: &mut Vec<(String, Queue)>) -> Result<(), Error> {
        if found.is_empty() {
            return Ok(());
        }
        let mut batch = Pipeline::new();
        for (key, _) in &*found {
            batch.cmd("TYPE").arg(key);
        }
        let replies = self.connections.pipeline(shard, &batch).await;
        let mut types = replies.map_err(|error| classify("TYPE", error))?.into_iter();
        found.retain(|(_, queue)| {
            let expected = if queue.guarantee == Guarantee::AtLeastOnce { "stream" } else { "list" };
            types.next().and_then(text).as_deref() == Some(expected)
        });
        Ok(())
    }
}
