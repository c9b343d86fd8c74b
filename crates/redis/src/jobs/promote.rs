//! Promoting due jobs.

use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted};
use tidemill_core::{Error, Queue};

use super::SCRIPT_BYTES;
use crate::chains::outbox::{Errand, GRACE_MS};
use crate::connection::Call;
use crate::connection::keys::letter;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How many errands of a dead process one look at a shard carries on.
const ERRANDS: usize = 64;

/// How long one shard of several has to promote: it makes several trips, and the others wait for it.
const PROMOTE_TIMEOUT: Duration = Duration::from_secs(3);

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
            tracing::debug!(error = error.full_message(), "one shard was not promoted");
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
            .arg(GRACE_MS);
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
}

/// How long until something is due; a negative number if nothing is.
pub(crate) fn until(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
