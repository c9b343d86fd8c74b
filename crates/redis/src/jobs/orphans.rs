//! Orphans: index entries of list jobs whose process died after the pop and before the lock.
//!
//! At-most-once jobs are lost then, but their ids must be freed and their waiters notified. A job
//! that is just being taken looks the same, so an entry is removed when it is found twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidemill_core::{Error, Queue};
use tokio::time::Instant;

use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// Maximum time between the pop and the lock of a job.
const CONFIRM_AFTER: Duration = Duration::from_secs(5);

/// How much of the index one scan reads.
const PAGE_SIZE: usize = 1_000;

/// Results of earlier scans.
#[derive(Debug, Default)]
pub(crate) struct OrphanScans(Mutex<HashMap<(Queue, u16), OrphanScan>>);

/// The scan of one list in one shard.
#[derive(Debug, Default, Clone)]
struct OrphanScan {
    /// Where the next look begins.
    cursor: String,
    /// Chains that may be orphans, and since when.
    candidates: HashMap<String, Instant>,
}

impl RedisStore {
    /// Scans a page of the index; removes confirmed orphans.
    pub(super) async fn remove_orphans(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let list = (queue.clone(), shard);
        let mut scan = self.orphan_scans.lock().get(&list).cloned().unwrap_or_default();
        let mut removed = 0;
        let orphans = self.find_orphans(shard, queue, &mut scan.cursor).await?;
        let now = Instant::now();
        for chain in orphans {
            scan.candidates.entry(chain).or_insert(now);
        }
        let is_confirmed = |since: &Instant| now.duration_since(*since) >= CONFIRM_AFTER;
        let chains: Vec<String> = scan
            .candidates
            .extract_if(|_, since| is_confirmed(since))
            .map(|(chain, _)| chain)
            .take(PAGE_SIZE)
            .collect();
        if !chains.is_empty() {
            removed = self.forget_orphans(shard, queue, &chains).await?;
        }
        if scan.candidates.len() > PAGE_SIZE {
            // Most of them were being taken, and are not found again.
            scan.candidates.clear();
        }
        self.orphan_scans.lock().insert(list, scan);
        Ok(removed)
    }

    async fn find_orphans(
        &self,
        shard: u16,
        queue: &Queue,
        cursor: &mut String,
    ) -> Result<Vec<String>, Error> {
        let keys = [
            self.keys.jobs(shard),
            self.keys.target(shard, queue),
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.takers(shard, queue),
        ];
        let from = if cursor.is_empty() { "0" } else { cursor.as_str() };
        let args = NamedArgs::new()
            .with("queue", queue.name.as_str())
            .with("cursor", from)
            .with("page_size", PAGE_SIZE);
        let call = ScriptCall::named(&self.scripts.orphans, &keys, &args);
        let unexpected = || unexpected_reply("orphans");
        let mut parts =
            array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?.into_iter().map(text);
        *cursor = parts.next().flatten().ok_or_else(unexpected)?;
        Ok(parts.flatten().collect())
    }

    async fn forget_orphans(&self, shard: u16, queue: &Queue, chains: &[String]) -> Result<u64, Error> {
        let mut keys = self.keys.shard_keys(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.running(shard, queue));
        let args = NamedArgs::new()
            .with("channel", self.keys.channel())
            .with("queue", queue.name.as_str())
            .with("chains", chains);
        let call = ScriptCall::named(&self.scripts.forget_orphans, &keys, &args);
        let mut parts = array(self.connections.call(shard, call).await?)
            .ok_or_else(|| unexpected_reply("forget_orphans"))?;
        let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(1)));
        self.process_outbox(shard, outbox).await;
        let count = parts.first().and_then(int).and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| unexpected_reply("forget_orphans"))
    }
}

impl OrphanScans {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Queue, u16), OrphanScan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
