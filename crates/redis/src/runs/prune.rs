//! Removing runs that have ended: by age, and of each type the oldest beyond a number.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tidemill_core::Error;

use crate::error::odd_answer;
use crate::store::RedisStore;
use crate::value::{array, int, text};

/// How many runs one call removes of a shard for their age, and of a type for their number.
const BATCH: usize = 200;

/// What a shard says after some of its runs were removed.
struct Left {
    removed: u64,
    /// How many ended runs each type still has.
    ended: Vec<(String, u64)>,
}

impl RedisStore {
    pub(crate) async fn remove_ended(&self, most: u64) -> Result<u64, Error> {
        let shards = 0..self.keys.shards();
        let left = try_join_all(shards.map(|shard| self.remove_runs(shard, BATCH, &[]))).await?;
        let mut removed = left.iter().map(|left| left.removed).sum();
        let mut ended = BTreeMap::<String, u64>::new();
        for (workflow, count) in left.into_iter().flat_map(|left| left.ended) {
            *ended.entry(workflow).or_default() += count;
        }
        for (workflow, count) in ended.into_iter().filter(|(_, count)| *count > most) {
            let excess = usize::try_from(count - most).unwrap_or(usize::MAX).min(BATCH);
            removed += self.remove_oldest(&workflow, excess).await?;
        }
        Ok(removed)
    }

    /// Removes the oldest ended runs of a type, wherever they are.
    async fn remove_oldest(&self, workflow: &str, count: usize) -> Result<u64, Error> {
        let oldest = |shard| async move {
            let mut ask = redis::cmd("ZRANGE");
            ask.arg(self.keys.ended(shard, workflow)).arg(0).arg(count - 1).arg("WITHSCORES");
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
        let removed = parts.first().and_then(count).ok_or_else(odd)?;
        let pairs = parts[1..].chunks_exact(2);
        let ended = pairs.map(|pair| Some((text(pair[0].clone())?, count(&pair[1])?)));
        Ok(Left { removed, ended: ended.collect::<Option<_>>().ok_or_else(odd)? })
    }
}
