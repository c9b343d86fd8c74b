//! Removing ended runs: by age, and the oldest of each type beyond a number.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::runs::PruneRunsParams;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// How many runs one call removes: of a shard by age, and of a type by number.
const MAX_BATCH_RUNS: usize = 200;

/// The reply of a shard after removing runs.
struct PruneReply {
    removed: u64,
    /// The shard's time.
    now: i64,
    /// How many ended runs each type has left.
    ended: Vec<(String, u64)>,
}

impl RedisStore {
    pub(crate) async fn prune_ended_runs(
        &self,
        PruneRunsParams { max_kept, min_age }: PruneRunsParams,
    ) -> Result<u64, Error> {
        let shards = 0..self.keys.shards();
        let replies = try_join_all(shards.map(|shard| self.remove_runs(shard, MAX_BATCH_RUNS, &[]))).await?;
        let mut removed = replies.iter().map(|replies| replies.removed).sum();
        let ended_by =
            replies.iter().map(|replies| replies.now).min().unwrap_or(0).saturating_sub(millis(min_age));
        let mut ended = BTreeMap::<String, u64>::new();
        for (workflow, count) in replies.into_iter().flat_map(|replies| replies.ended) {
            *ended.entry(workflow).or_default() += count;
        }
        for (workflow, count) in ended.into_iter().filter(|(_, count)| *count > max_kept) {
            let excess = usize::try_from(count - max_kept).unwrap_or(usize::MAX).min(MAX_BATCH_RUNS);
            removed += self.remove_oldest(&workflow, excess, ended_by).await?;
        }
        Ok(removed)
    }

    /// Removes the oldest runs of a type over all shards that ended by a time.
    async fn remove_oldest(&self, workflow: &str, count: usize, ended_by: i64) -> Result<u64, Error> {
        let oldest = |shard| async move {
            let mut command = redis::cmd("ZRANGEBYSCORE");
            command.arg(self.keys.ended_runs(shard, workflow)).arg("-inf").arg(ended_by).arg("WITHSCORES");
            command.arg("LIMIT").arg(0).arg(count);
            let found: Vec<(String, f64)> = self.connections.query(shard, &command).await?;
            Ok::<_, Error>(found.into_iter().map(move |(run, at)| (at, run, shard)).collect::<Vec<_>>())
        };
        let mut found = try_join_all((0..self.keys.shards()).map(oldest)).await?.concat();
        found.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
        found.truncate(count);
        let mut removed = 0;
        for shard in 0..self.keys.shards() {
            let here: Vec<&str> =
                found.iter().filter(|(_, _, at)| *at == shard).map(|(_, run, _)| run.as_str()).collect();
            if !here.is_empty() {
                removed += self.remove_runs(shard, 0, &here).await?.removed;
            }
        }
        Ok(removed)
    }

    async fn remove_runs(&self, shard: u16, limit: usize, runs: &[&str]) -> Result<PruneReply, Error> {
        let args = NamedArgs::new().with("limit", limit).with("runs", runs);
        let call = self.run_script_call(&self.scripts.prune_runs, shard, args);
        let unexpected = || unexpected_reply("prune_runs");
        let parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
        let count = |value| int(value).map(i64::unsigned_abs);
        let [removed, now, pairs @ ..] = &parts[..] else { return Err(unexpected()) };
        let (removed, now) = (count(removed).ok_or_else(unexpected)?, int(now).ok_or_else(unexpected)?);
        let pairs = pairs.chunks_exact(2);
        let ended = pairs.map(|pair| Some((text(pair[0].clone())?, count(&pair[1])?)));
        Ok(PruneReply { removed, now, ended: ended.collect::<Option<_>>().ok_or_else(unexpected)? })
    }
}
