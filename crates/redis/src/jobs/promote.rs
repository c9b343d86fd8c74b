//! Promoting due jobs.

use std::time::Duration;

use tidemill_core::store::{PromoteParams, Promoted};
use tidemill_core::{Error, Queue};

use super::MAX_SCRIPT_BYTES;
use crate::chains::outbox::{OUTBOX_GRACE_MS, OutboxEntry};
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// How many outbox entries of dead processes one call takes over.
const MAX_OUTBOX_ENTRIES: usize = 64;

/// How long one shard of several has to promote, in several calls.
const PROMOTE_TIMEOUT: Duration = Duration::from_secs(3);

/// How soon a shard that did not respond is tried again.
const SHARD_RETRY_DELAY: Duration = Duration::from_secs(1);

impl RedisStore {
    pub(crate) async fn promote_due(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        if self.keys.shards() == 1 {
            return self.promote_shard(0, &promote).await;
        }
        let parts =
            self.each_shard(PROMOTE_TIMEOUT, |shard| self.promote_shard(shard, &promote)).await.any()?;
        let mut all = Promoted::default();
        for (_, part) in parts.replies {
            all.moved += part.moved;
            all.next = all.next.into_iter().chain(part.next).min();
        }
        // The other shards have promoted their jobs. The failed one is tried again soon.
        if let Some((_, error)) = parts.failures.first() {
            tracing::debug!(error = error.full_message(), "one shard was not promoted");
            all.next = all.next.into_iter().chain([SHARD_RETRY_DELAY]).min();
        }
        Ok(all)
    }

    async fn promote_shard(&self, shard: u16, promote: &PromoteParams<'_>) -> Result<Promoted, Error> {
        let mut keys = vec![self.keys.jobs(shard), self.keys.errands(shard), self.keys.timers(shard)];
        // All queues share the script's byte limit, so none may always be first.
        let mut queues: Vec<&Queue> = promote.queues.iter().collect();
        let first = fastrand::usize(..queues.len().max(1));
        queues.rotate_left(first);
        for queue in &queues {
            keys.push(self.keys.target(shard, queue));
            keys.push(self.keys.scheduled(shard, queue));
        }
        let queue = |queue: &&Queue| {
            NamedArgs::new().with("kind", kind_letter(queue)).with("name", queue.name.as_str())
        };
        let args = NamedArgs::new()
            .with("limit", promote.limit)
            .with("bytes", MAX_SCRIPT_BYTES)
            .with("outbox_limit", MAX_OUTBOX_ENTRIES)
            .with("grace", OUTBOX_GRACE_MS)
            .with("queues", queues.iter().map(queue).collect::<Vec<_>>());
        let call = ScriptCall::named(&self.scripts.promote, &keys, &args);
        let unexpected = || unexpected_reply("promote");
        let mut parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
        let mut rest = parts.split_off(parts.len().min(4));
        let [moved, next, timer, damaged] = &parts[..] else { return Err(unexpected()) };
        let damaged = int(damaged).and_then(|count| usize::try_from(count).ok()).ok_or_else(unexpected)?;
        let outbox = rest.split_off(damaged.min(rest.len()));
        rest.into_iter()
            .filter_map(text)
            .for_each(|description| self.logged_damage.log_once("promoting", &description));
        self.process_outbox(shard, OutboxEntry::parse_all(outbox)).await;
        let count = |value| int(value).ok_or_else(unexpected);
        let promoted =
            Promoted { moved: u64::try_from(count(moved)?).unwrap_or(0), next: delay_from_ms(count(next)?) };
        let fired = match delay_from_ms(count(timer)?) {
            Some(Duration::ZERO) => {
                self.unless_damaged("firing alarms", self.fire_timers(shard, promote.limit).await)?
            }
            next => Promoted { moved: 0, next },
        };
        let next = promoted.next.into_iter().chain(fired.next).min();
        Ok(Promoted { moved: promoted.moved + fired.moved, next })
    }
}

/// A delay from ms; `None` for a negative number.
pub(crate) fn delay_from_ms(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
