//! Removing runs that have ended: by age, and of each type the oldest beyond a number.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::runs::PruneRunsParams;

use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How many runs one call removes of a shard for their age, and of a type for their number.
const BATCH: usize = 200;

/// What a shard says after some of its runs were removed.
struct Left {
    removed: u64,
    /// What time it is there.
    now: i64,
    /// How many ended runs each type still has.
    ended: Vec<(String, u64)>,
}

impl RedisStore {
    pub(crate) async fn remove_ended(
        &self,
        PruneRunsParams { max_kept: most, min_age }: PruneRunsParams,
    ) -> Result<u64, Error> {
        let shards = 0..self.keys.shards();
        let left = try_join_all(shards.map(|shard| self.remove_runs(shard, BATCH, &[]))).await?;
        let mut removed = left.iter().map(|left| left.removed).sum();
        let ended_by = left.iter().map(|left| left.now).min().unwrap_or(0).saturating_sub(millis(min_age));
        let mut ended = BTreeMap::<String, u64>::new();
        for (workflow, count) in left.into_iter().flat_map(|left| left.ended) {
            *ended.entry(workflow).or_default() += count;
        }
        for (workflow, count) in ended.into_iter().filter(|(_, count)| *count > most) {
            let excess = usize::try_from(count - most).unwrap_or(usize::MAX).min(BATCH);
            removed += self.remove_oldest(&workflow, excess, ended_by).await?;
        }
        Ok(removed)
    }

    /// Removes the oldest runs of a type, wherever they are, that had ended by a time.
    async fn remove_oldest(&self, workflow: &str, count: usize, ended_by: i64) -> Result<u64, Error> {
        let oldest = |shard| async move {
            let mut ask = redis::cmd("ZRANGEBYSCORE");
            ask.arg(self.keys.ended(shard, workflow)).arg("-inf").arg(ended_by).arg("WITHSCORES");
            ask.arg("LIMIT").arg(0).arg(count);
            let found: Vec<(String, f64)> = self.link.query(shard, &ask).await?;
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

    async fn remove_runs(&self, shard: u16, limit: usize, runs: &[&str]) -> Result<Left, Error> {
        let call = self.call_on_runs(&self.scripts.prune_runs, shard).arg(limit).arg(runs);
        let odd = || odd_answer("prune_runs");
        let parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let count = |value| int(value).map(i64::unsigned_abs);
        let [removed, now, pairs @ ..] = &parts[..] else { return Err(odd()) };
        let (removed, now) = (count(removed).ok_or_else(odd)?, int(now).ok_or_else(odd)?);
        let pairs = pairs.chunks_exact(2);
        let ended = pairs.map(|pair| Some((text(pair[0].clone())?, count(&pair[1])?)));
        Ok(Left { removed, now, ended: ended.collect::<Option<_>>().ok_or_else(odd)? })
    }
}
