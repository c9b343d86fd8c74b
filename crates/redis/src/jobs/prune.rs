//! Removing data that dead workers and other programs have left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_core::store::Pruned;
use tidemill_core::{Error, Guarantee, Queue};

use crate::store::RedisStore;

/// How many unconfirmed pops one prune of a list expires.
const MAX_SWEPT_POPS: usize = 256;

/// How long one shard of several has for pruning, which takes many calls.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(20);

/// In how many rounds all streams are pruned, if there are many. With two calls for each stream
/// twice a minute, pruning would be most of an idle worker's cost.
const PRUNE_ROUNDS: usize = 4;

/// Minimum number of streams pruned in every round.
const MIN_PRUNED_STREAMS: usize = 16;

impl RedisStore {
    pub(crate) async fn prune_leftovers(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        let turn: Vec<Queue> = self.queues_to_prune(queues).cloned().collect();
        for (_, (traces, more)) in
            self.each_shard(PRUNE_TIMEOUT, |shard| self.prune_shard(shard, &turn)).await.any()?.replies
        {
            pruned.leftovers += traces;
            pruned.more |= more;
        }
        Ok(pruned)
    }

    /// Prunes a shard. Returns how much was removed, and whether there may be more.
    async fn prune_shard(&self, shard: u16, queues: &[Queue]) -> Result<(u64, bool), Error> {
        self.clock.sync(self.connections.time(shard).await?);
        let (mut traces, mut more) = (0, false);
        for queue in queues {
            let (removed, is_more) = self.unless_damaged("pruning", self.prune_queue(shard, queue).await)?;
            traces += removed;
            more |= is_more;
        }
        let repaired = self.unless_damaged("repairing the index", self.repair_index(shard).await)?;
        Ok((traces + repaired, more))
    }

    /// The queues of this round: all lists, and a part of many streams.
    fn queues_to_prune<'a>(&self, queues: &'a [Queue]) -> impl Iterator<Item = &'a Queue> {
        let (lists, streams): (Vec<_>, Vec<_>) =
            queues.iter().partition(|queue| queue.guarantee == Guarantee::AtMostOnce);
        let count = streams.len().div_ceil(PRUNE_ROUNDS).max(MIN_PRUNED_STREAMS).min(streams.len());
        let first = self.pruned_streams.fetch_add(count, Ordering::Relaxed) % streams.len().max(1);
        let turn: Vec<_> = streams.iter().copied().cycle().skip(first).take(count).collect();
        lists.into_iter().chain(turn)
    }

    /// Prunes a queue. Returns how much was removed, and whether there may be more.
    async fn prune_queue(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        if queue.guarantee == Guarantee::AtMostOnce {
            let swept = self.sweep_pops(shard, queue, MAX_SWEPT_POPS).await?;
            let forgotten = self.forget_untracked(shard, queue).await?;
            return Ok((swept + forgotten + self.remove_orphans(shard, queue).await?, false));
        }
        let (deleted, more) = self.delete_acknowledged(shard, queue).await?;
        Ok((deleted + self.remove_consumers((shard, queue), "").await?, more))
    }
}
