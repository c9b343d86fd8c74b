//! The outbox: work that a script leaves for another script, mostly in another shard.

use std::fmt;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use redis::Value;
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Guarantee, JobId, Queue, QueueName};

use crate::connection::keys::kind_letter;
use crate::connection::reply::text;
use crate::store::RedisStore;

/// How long the caller has for an entry, in ms, before others process it. Also in
/// `lua/lib/close.lua`.
pub(crate) const OUTBOX_GRACE_MS: u64 = 2_000;

/// Concurrent entries: enough to fill round trips, few enough to leave capacity for others.
const MAX_CONCURRENT_ENTRIES: usize = 16;

/// An outbox entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutboxEntry {
    /// Register a blocked job with its blockers.
    Register {
        /// The id of the wait.
        wait_id: String,
    },
    /// Notify the waiters of a closed chain.
    Notify(JobId),
    /// Expire the key of a closed chain.
    ExpireKey {
        /// When, in ms; 0 now.
        at: u64,
        /// The chain.
        chain: JobId,
        /// The key.
        key: String,
    },
    /// Create the chain for which a key is reserved.
    CreateReserved {
        /// The key.
        key: String,
    },
    /// Apply the pending effects of a run.
    ApplyEffects(RunId),
    /// Complete a purge that has begun.
    Purge {
        /// The queue.
        queue: Queue,
        /// The last entry of the stream to delete.
        last: String,
    },
}

/// The result of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutboxResult {
    /// It is done.
    Done,
    /// A blocker of a new job is gone: the job was removed.
    BlockerMissing(JobId),
}

impl OutboxEntry {
    fn parse(text: &str) -> Option<Self> {
        let (letter, rest) = text.split_once(' ')?;
        match letter {
            "w" => Some(Self::Register { wait_id: rest.to_owned() }),
            "c" => Some(Self::Notify(JobId::new(rest).ok()?)),
            "k" => Some(Self::CreateReserved { key: rest.to_owned() }),
            "e" => Some(Self::ApplyEffects(RunId::new(rest).ok()?)),
            "p" => {
                let mut parts = rest.splitn(3, ' ');
                let (letter, last, name) = (parts.next()?, parts.next()?, parts.next()?);
                let guarantee = if letter == "s" { Guarantee::AtLeastOnce } else { Guarantee::AtMostOnce };
                let queue = Queue { name: QueueName::new(name).ok()?, guarantee };
                Some(Self::Purge { queue, last: last.to_owned() })
            }
            "u" => {
                let mut parts = rest.splitn(3, ' ');
                let at = parts.next()?.parse().ok()?;
                let chain = JobId::new(parts.next()?).ok()?;
                Some(Self::ExpireKey { at, chain, key: parts.next()?.to_owned() })
            }
            _ => None,
        }
    }

    /// The outbox in a script's reply. Skips invalid entries, which could never be processed.
    pub(crate) fn parse_all(parts: impl IntoIterator<Item = Value>) -> Vec<Self> {
        parts.into_iter().filter_map(text).filter_map(|text| Self::parse(&text)).collect()
    }
}

impl fmt::Display for OutboxEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { wait_id } => write!(f, "w {wait_id}"),
            Self::Notify(chain) => write!(f, "c {chain}"),
            Self::ExpireKey { at, chain, key } => write!(f, "u {at} {chain} {key}"),
            Self::CreateReserved { key } => write!(f, "k {key}"),
            Self::ApplyEffects(run) => write!(f, "e {run}"),
            Self::Purge { queue, last } => write!(f, "p {} {last} {}", kind_letter(queue), queue.name),
        }
    }
}

impl RedisStore {
    /// Processes the outbox of a script. A failed entry stays, and the next promoter processes it.
    pub(crate) async fn process_outbox(&self, shard: u16, outbox: Vec<OutboxEntry>) {
        for (entry, result) in self.process_entries(shard, outbox).await {
            if let Err(error) = result {
                tracing::warn!(%entry, error = error.full_message(), "cannot process an outbox entry; another process will");
            }
        }
    }

    /// Processes entries, and returns the result of each.
    pub(super) async fn process_entries(
        &self,
        shard: u16,
        outbox: Vec<OutboxEntry>,
    ) -> Vec<(OutboxEntry, Result<OutboxResult, Error>)> {
        let run = |entry: OutboxEntry| async move {
            let result = self.process_entry(shard, &entry).await;
            (entry, result)
        };
        stream::iter(outbox).map(run).buffer_unordered(MAX_CONCURRENT_ENTRIES).collect().await
    }

    /// Boxed, because an entry may add others.
    fn process_entry<'a>(
        &'a self,
        shard: u16,
        entry: &'a OutboxEntry,
    ) -> BoxFuture<'a, Result<OutboxResult, Error>> {
        async move {
            match entry {
                OutboxEntry::Register { wait_id } => self.register_wait(shard, wait_id).await,
                OutboxEntry::Notify(chain) => {
                    self.notify_waiters(shard, chain).await.map(|()| OutboxResult::Done)
                }
                OutboxEntry::CreateReserved { key } => self.create_reserved(shard, key).await,
                OutboxEntry::ApplyEffects(run) => {
                    self.apply_effects(shard, run).await.map(|()| OutboxResult::Done)
                }
                OutboxEntry::Purge { queue, last } => {
                    self.complete_purge(shard, queue, last).await.map(|_| OutboxResult::Done)
                }
                OutboxEntry::ExpireKey { at, chain, key } => {
                    self.expire_key(*at, chain, key).await?;
                    self.delete_outbox_entry(shard, entry).await.map(|()| OutboxResult::Done)
                }
            }
        }
        .boxed()
    }

    /// Deletes a processed entry.
    pub(crate) async fn delete_outbox_entry(&self, shard: u16, entry: &OutboxEntry) -> Result<(), Error> {
        let remove = redis::cmd("ZREM").arg(self.keys.errands(shard)).arg(entry.to_string()).take();
        self.connections.query::<i64>(shard, &remove).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errands_read_back_as_they_are_written() {
        let (chain, key) = (JobId::new("c").unwrap(), "a key with spaces".to_owned());
        let outbox = [
            OutboxEntry::Register { wait_id: "0f".into() },
            OutboxEntry::Notify(chain.clone()),
            OutboxEntry::ExpireKey { at: 17, chain, key: key.clone() },
            OutboxEntry::CreateReserved { key },
            OutboxEntry::ApplyEffects(RunId::new("r").unwrap()),
            OutboxEntry::Purge {
                queue: Queue::at_least_once(QueueName::new("q").unwrap()),
                last: "1-2".into(),
            },
        ];
        for entry in outbox {
            assert_eq!(OutboxEntry::parse(&entry.to_string()), Some(entry));
        }
        assert_eq!(OutboxEntry::parse("x y"), None);
    }
}
