//! What any process does for all: promoting due jobs, removing traces.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted, Pruned};
use tidemill_core::{Error, Guarantee, HolderId, Queue};

use super::SCRIPT_BYTES;
use crate::breaker::SHARD_TIMEOUT;
use crate::chains::errand::{self, Errand};
use crate::error::odd_answer;
use crate::keys::letter;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{array, int, text};

/// A consumer that has read nothing for this long, and holds nothing, is gone.
const IDLE_CONSUMER_MS: u64 = 10 * 60 * 1000;

/// How many errands of a dead process one look at a shard carries on.
const ERRANDS: usize = 64;

/// How many pops of dead workers one prune of a list ends.
const SWEPT_POPS: usize = 256;

/// How long one shard of several has to promote: it makes several trips, and the others wait for it.
const PROMOTE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long one shard of several has to be pruned, which takes many trips.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(20);

/// In how many rounds all streams are pruned, if there are many: a round twice a minute, with two calls for each, would be
/// most of what an idle worker with hundreds of queues costs the server.
const PRUNE_ROUNDS: usize = 4;

/// How many streams are pruned in every round.
const MIN_PRUNED_STREAMS: usize = 16;

/// How soon a shard that did not answer is asked again.
const SHARD_AGAIN: Duration = Duration::from_secs(1);

impl RedisStore {
    pub(crate) async fn promote_due(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        if self.keys.shards() == 1 {
            return self.promote_shard(0, &promote).await;
        }
        let parts =
            self.each_shard(PROMOTE_TIMEOUT, |shard| self.promote_shard(shard, &promote)).await.any()?;
        let mut all = Promoted::default();
        for (_, part) in parts.answers {
            all.moved += part.moved;
            all.next = all.next.into_iter().chain(part.next).min();
        }
        // What the other shards did has taken place. One that did not answer is asked again soon.
        if let Some((_, error)) = parts.failures.first() {
            tracing::debug!(error = error.chain(), "one shard was not promoted");
            all.next = all.next.into_iter().chain([SHARD_AGAIN]).min();
        }
        Ok(all)
    }

    async fn promote_shard(&self, shard: u16, promote: &PromoteParams<'_>) -> Result<Promoted, Error> {
        let mut keys = vec![self.keys.jobs(shard), self.keys.errands(shard), self.keys.timers(shard)];
        // All queues share the script's bytes, so none may always be the first.
        let mut queues: Vec<&Queue> = promote.queues.iter().collect();
        let first = fastrand::usize(..queues.len().max(1));
        queues.rotate_left(first);
        for queue in &queues {
            keys.push(self.keys.target(shard, queue));
            keys.push(self.keys.scheduled(shard, queue));
        }
        let mut call = Call::new(&self.scripts.promote, &keys)
            .arg(promote.limit)
            .arg(SCRIPT_BYTES)
            .arg(ERRANDS)
            .arg(errand::GRACE_MS);
        for queue in queues {
            call.push(letter(queue));
            call.push(queue.name.as_str());
        }
        let odd = || odd_answer("promote");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let mut rest = parts.split_off(parts.len().min(4));
        let [moved, next, alarm, damaged] = &parts[..] else { return Err(odd()) };
        let damaged = int(damaged).and_then(|count| usize::try_from(count).ok()).ok_or_else(odd)?;
        let errands = rest.split_off(damaged.min(rest.len()));
        rest.into_iter().filter_map(text).for_each(|what| self.complaints.once("promoting", &what));
        self.carry_on(shard, Errand::all(errands)).await;
        let count = |value| int(value).ok_or_else(odd);
        let promoted =
            Promoted { moved: u64::try_from(count(moved)?).unwrap_or(0), next: until(count(next)?) };
        let fired = match until(count(alarm)?) {
            Some(Duration::ZERO) => {
                self.unless_damaged("firing alarms", self.fire_alarms(shard, promote.limit).await)?
            }
            next => Promoted { moved: 0, next },
        };
        let next = promoted.next.into_iter().chain(fired.next).min();
        Ok(Promoted { moved: promoted.moved + fired.moved, next })
    }

    pub(crate) async fn prune_traces(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        let turn: Vec<Queue> = self.prune_turn(queues).cloned().collect();
        for (_, (traces, more)) in
            self.each_shard(PRUNE_TIMEOUT, |shard| self.prune_shard(shard, &turn)).await.any()?.answers
        {
            pruned.traces += traces;
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

    pub(crate) async fn remove_worker(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        let left = self
            .each_shard(SHARD_TIMEOUT, |shard| self.remove_from(shard, worker, queues))
            .await
            .all()
            .map(drop);
        self.prepared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|(_, _, prepared)| prepared != worker);
        left.and(self.remove_copies(worker).await)
    }

    async fn remove_from(&self, shard: u16, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        for queue in queues.iter().filter(|queue| queue.guarantee == Guarantee::AtLeastOnce) {
            self.remove_consumers((shard, queue), worker.as_str()).await?;
        }
        Ok(())
    }

    async fn remove_consumers(&self, (shard, queue): (u16, &Queue), worker: &str) -> Result<u64, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.leases(shard, queue)];
        let call =
            Call::new(&self.scripts.leave, &keys).arg(self.group(queue)).arg(worker).arg(IDLE_CONSUMER_MS);
        let removed = int(&self.link.call(shard, call).await?);
        Ok(removed.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

/// How long until something is due; a negative number if nothing is.
pub(crate) fn until(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
