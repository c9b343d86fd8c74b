//! Repairing data that other programs have changed: index entries of removed jobs, and entries that
//! were acknowledged and not deleted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidemill_core::{Error, JobId, Queue};

use crate::chains::outbox::OutboxEntry;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::jobs::locate::JobLocation;
use crate::runs::removed_event;
use crate::store::RedisStore;

/// How many index entries or stream entries one script checks.
const PAGE_SIZE: usize = 100;

/// How many pages of the index one round checks: all workers together cover a large index.
const MAX_INDEX_PAGES: usize = 10;

/// How many pages of a stream one round checks, including pending entries.
const MAX_STREAM_PAGES: usize = 100;

/// The next position in the index of each shard.
#[derive(Debug, Default)]
pub(crate) struct RepairCursors(Mutex<HashMap<u16, String>>);

impl RepairCursors {
    fn take(&self, shard: u16) -> String {
        let cursor = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard);
        cursor.unwrap_or_else(|| "0".to_owned())
    }

    fn put(&self, shard: u16, cursor: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, cursor);
    }
}

/// The reply of a repairing script.
struct RepairReply {
    count: u64,
    /// The next position; empty if done.
    next: String,
}

impl RedisStore {
    /// Removes index entries of these chains whose jobs are gone. Returns how many.
    pub(crate) async fn forget_lost(&self, shard: u16, chains: &[JobId]) -> Result<u64, Error> {
        let mut forgotten = 0;
        for part in chains.chunks(PAGE_SIZE) {
            let chains: Vec<&str> = part.iter().map(JobId::as_str).collect();
            forgotten += self.repair(shard, NamedArgs::new().with("chains", chains)).await?.count;
        }
        Ok(forgotten)
    }

    /// Whether another program has removed a chain's job. If so, its index entry is removed.
    pub(crate) async fn forget_if_lost(&self, job: &JobId) -> Result<bool, Error> {
        Ok(self.forget_lost(self.keys.shard_of(job), &[job.chain()]).await? > 0)
    }

    /// Handles a job that was not at its location: it has moved, or another program has removed it.
    pub(crate) async fn repair_if_lost(&self, job: &JobId, location: &JobLocation) -> Result<(), Error> {
        if location.index_value.is_empty() {
            return Ok(());
        }
        self.forget_lost(location.shard, &[job.chain()]).await.map(drop)
    }

    /// Checks a part of a shard's index. Returns how many jobs were gone.
    pub(super) async fn repair_index(&self, shard: u16) -> Result<u64, Error> {
        let (mut cursor, mut forgotten) = (self.repair_cursors.take(shard), 0);
        for _ in 0..MAX_INDEX_PAGES {
            let args = NamedArgs::new().with("cursor", &cursor).with("page_size", PAGE_SIZE);
            let repaired = self.repair(shard, args).await?;
            forgotten += repaired.count;
            cursor = repaired.next;
            if cursor.is_empty() {
                return Ok(forgotten);
            }
        }
        self.repair_cursors.put(shard, cursor);
        Ok(forgotten)
    }

    /// Deletes acknowledged entries. Returns how many, and whether there may be more.
    pub(super) async fn delete_acknowledged(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        let (mut last, mut deleted) = (String::new(), 0);
        for _ in 0..MAX_STREAM_PAGES {
            let args = NamedArgs::new()
                .with("queue", queue.name.as_str())
                .with("after", Some(&last).filter(|last| !last.is_empty()))
                .with("page_size", PAGE_SIZE);
            let repaired = self.repair(shard, args).await?;
            deleted += repaired.count;
            last = repaired.next;
            if last.is_empty() {
                return Ok((deleted, false));
            }
        }
        Ok((deleted, deleted > 0))
    }

    async fn repair(&self, shard: u16, args: NamedArgs) -> Result<RepairReply, Error> {
        let args = args.with("removed_event", removed_event());
        let call = self.run_script_call(&self.scripts.repair, shard, args);
        let unexpected = || unexpected_reply("repair");
        let mut parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
        let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(2)));
        self.process_outbox(shard, outbox).await;
        let [count, next] = &parts[..] else { return Err(unexpected()) };
        let count = int(count).and_then(|count| u64::try_from(count).ok()).ok_or_else(unexpected)?;
        Ok(RepairReply { count, next: text(next.clone()).ok_or_else(unexpected)? })
    }
}
