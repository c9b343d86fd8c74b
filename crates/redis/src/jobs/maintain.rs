//! What any process does for all: promoting due jobs, removing traces.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::{Promote, Promoted, Pruned};
use tidemill_core::{Delivery, Error, Queue, WorkerId};

use super::SCRIPT_BYTES;
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

/// How long one shard of several has for its part: the others are not to wait for it.
const SHARD_ANSWER: Duration = Duration::from_secs(3);

/// How soon a shard that did not answer is asked again.
const SHARD_AGAIN: Duration = Duration::from_secs(1);

impl RedisStore {
    pub(crate) async fn promote_due(&self, promote: Promote<'_>) -> Result<Promoted, Error> {
        if self.keys.shards() == 1 {
            return self.promote_shard(0, &promote).await;
        }
        let one = async |shard| {
            let answer = tokio::time::timeout(SHARD_ANSWER, self.promote_shard(shard, &promote)).await;
            let message = || format!("shard {shard} did not promote within {SHARD_ANSWER:?}");
            answer.unwrap_or_else(|_| Err(Error::Unavailable { message: message(), source: None }))
        };
        let (mut all, mut failures, mut answers) = (Promoted::default(), Vec::new(), 0);
        for part in join_all((0..self.keys.shards()).map(one)).await {
            match part {
                Ok(part) => {
                    answers += 1;
                    all.moved += part.moved;
                    all.next = all.next.into_iter().chain(part.next).min();
                }
                Err(error) => failures.push(error),
            }
        }
        // What the other shards did has taken place. One that did not answer is asked again soon.
        match failures.pop() {
            Some(error) if answers == 0 => Err(error),
            Some(error) => {
                tracing::warn!(error = error.chain(), "one shard was not promoted");
                all.next = all.next.into_iter().chain([SHARD_AGAIN]).min();
                Ok(all)
            }
            None => Ok(all),
        }
    }

    async fn promote_shard(&self, shard: u16, promote: &Promote<'_>) -> Result<Promoted, Error> {
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
        self.clock.set(self.link.time().await?);
        for queue in queues {
            for shard in 0..self.keys.shards() {
                let (removed, more) = self.unless_damaged("pruning", self.prune_queue(shard, queue).await)?;
                pruned.traces += removed;
                pruned.more |= more;
            }
        }
        for shard in 0..self.keys.shards() {
            pruned.traces += self.unless_damaged("repairing the index", self.repair_index(shard).await)?;
        }
        Ok(pruned)
    }

    /// Removes what is left over of a queue. Returns how much, and whether there may be more.
    async fn prune_queue(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        if queue.delivery == Delivery::AtMostOnce {
            let swept = self.sweep_pops(shard, queue, SWEPT_POPS).await?;
            let forgotten = self.forget_untracked(shard, queue).await?;
            return Ok((swept + forgotten + self.remove_orphans(shard, queue).await?, false));
        }
        let (deleted, more) = self.delete_acknowledged(shard, queue).await?;
        Ok((deleted + self.remove_consumers((shard, queue), "").await?, more))
    }

    pub(crate) async fn remove_worker(&self, worker: &WorkerId, queues: &[Queue]) -> Result<(), Error> {
        for queue in queues.iter().filter(|queue| queue.delivery == Delivery::AtLeastOnce) {
            for shard in 0..self.keys.shards() {
                self.remove_consumers((shard, queue), worker.as_str()).await?;
            }
        }
        self.prepared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|(_, _, prepared)| prepared != worker);
        self.remove_copies(worker).await
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
