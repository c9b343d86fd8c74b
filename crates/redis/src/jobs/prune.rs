//! Removing what dead workers and other programs have left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_core::store::Pruned;
use tidemill_core::{Error, Guarantee, Queue};

use crate::store::RedisStore;

/// How many pops of dead workers one prune of a list ends.
const SWEPT_POPS: usize = 256;

/// How long one shard of several has to be pruned, which takes many trips.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(20);

/// In how many rounds all streams are pruned, if there are many: a round twice a minute, with two calls for each, would be
/// most of what an idle worker with hundreds of queues costs the server.
const PRUNE_ROUNDS: usize = 4;

/// How many streams are pruned in every round.
const MIN_PRUNED_STREAMS: usize = 16;

impl RedisStore {
    pub(crate) async fn prune_traces(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        let turn: Vec<Queue> = self.prune_turn(queues).cloned().collect();
        for (_, (traces, more)) in
            self.each_shard(PRUNE_TIMEOUT, |shard| self.prune_shard(shard, &turn)).await.any()?.answers
        {
            pruned.leftovers += traces;
            pruned.more |= more;
        }
        Ok(pruned)
    }

    /// Removes what is left over in a shard. Returns how much, and whether there may be more.
    async fn prune_shard(&self, shard: u16, queues: &[Queue]) -> Result<(u64, bool), Error> {
        self.clock.set(self.link.time(shard).await?);
        let (mut traces, mut more) = (0, false);
        for queue in queues {
            let (removed, is_more) = self.unless_damaged("pruning", self.prune_queue(shard, queue).await)?;
            traces += removed;
            more |= is_more;
        }
        let repaired = self.unless_damaged("repairing the index", self.repair_index(shard).await)?;
        Ok((traces + repaired, more))
    }

    /// The queues whose turn it is: all lists, and of many streams some after the others.
    fn prune_turn<'a>(&self, queues: &'a [Queue]) -> impl Iterator<Item = &'a Queue> {
        let (lists, streams): (Vec<_>, Vec<_>) =
            queues.iter().partition(|queue| queue.guarantee == Guarantee::AtMostOnce);
        let count = streams.len().div_ceil(PRUNE_ROUNDS).max(MIN_PRUNED_STREAMS).min(streams.len());
        let first = self.pruned_streams.fetch_add(count, Ordering::Relaxed) % streams.len().max(1);
        let turn: Vec<_> = streams.iter().copied().cycle().skip(first).take(count).collect();
        lists.into_iter().chain(turn)
    }

    /// Removes what is left over of a queue. Returns how much, and whether there may be more.
    async fn prune_queue(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        if queue.guarantee == Guarantee::AtMostOnce {
            let swept = self.sweep_pops(shard, queue, SWEPT_POPS).await?;
            let forgotten = self.forget_untracked(shard, queue).await?;
            return Ok((swept + forgotten + self.remove_orphans(shard, queue).await?, false));
        }
        let (deleted, more) = self.delete_acknowledged(shard, queue).await?;
        Ok((deleted + self.remove_consumers((shard, queue), "").await?, more))
    }
}
