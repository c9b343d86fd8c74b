//! Notifying the waiters of a closed chain: in pages, each in the waiter's shard.

use bytes::Bytes;
use tidemill_core::{Error, JobId, Queue, QueueName};

use super::blocked_job::{BlockerStatus, BlockerUpdate, int_or_zero, notice_from_record};
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// How many waiters one round notifies: bounds the work of one script.
const PAGE_SIZE: usize = 250;

/// A member of `waiters`.
struct WaiterEntry {
    queue: Queue,
    update: BlockerUpdate,
}

impl WaiterEntry {
    /// `CHAIN MARK POSITION QUEUE JOB`.
    fn parse(entry: &str) -> Option<Self> {
        let mut parts = entry.split(' ').skip(1);
        let wait_id = parts.next()?.to_owned();
        let position = parts.next()?.parse().ok()?;
        let queue = Queue::at_least_once(QueueName::new(parts.next()?).ok()?);
        let job = JobId::new(parts.next()?).ok()?;
        Some(Self {
            queue,
            update: BlockerUpdate { job, wait_id, statuses: vec![(position, BlockerStatus::Closed(0))] },
        })
    }
}

impl RedisStore {
    /// Notifies all waiters of a closed chain.
    pub(crate) async fn notify_waiters(&self, shard: u16, chain: &JobId) -> Result<(), Error> {
        loop {
            let (notice, entries) = self.read_notice(shard, chain).await?;
            if let Some(notice) = notice {
                self.notify_all(&notice_from_record(chain, &notice), &entries).await?;
            }
            if self.mark_notified(shard, chain, &entries).await? {
                return Ok(());
            }
        }
    }

    /// The notice of a chain, and a page of its waiters.
    async fn read_notice(&self, shard: u16, chain: &JobId) -> Result<(Option<Bytes>, Vec<String>), Error> {
        let keys = [self.keys.waiters(shard), self.keys.notices(shard)];
        let call = ScriptCall::new(&self.scripts.read_notice, &keys).arg(chain.as_str()).arg(PAGE_SIZE);
        let parts = array(self.connections.call(shard, call).await?)
            .ok_or_else(|| unexpected_reply("read_notice"))?;
        let mut parts = parts.into_iter();
        let notice = parts.next().and_then(bytes);
        Ok((notice, parts.filter_map(text).collect()))
    }

    async fn notify_all(&self, notice: &Bytes, entries: &[String]) -> Result<(), Error> {
        let mut targets: Vec<(u16, Queue, Vec<BlockerUpdate>)> = Vec::new();
        for WaiterEntry { queue, update } in entries.iter().filter_map(|entry| WaiterEntry::parse(entry)) {
            let shard = self.keys.shard_of(&update.job);
            match targets.iter_mut().find(|(there, name, _)| *there == shard && *name == queue) {
                Some((_, _, updates)) => updates.push(update),
                None => targets.push((shard, queue, vec![update])),
            }
        }
        for (shard, queue, updates) in targets {
            self.notify_blocked((shard, &queue), std::slice::from_ref(notice), &updates).await?;
        }
        Ok(())
    }

    /// Records that these were notified. Returns whether they were the last.
    async fn mark_notified(&self, shard: u16, chain: &JobId, entries: &[String]) -> Result<bool, Error> {
        let keys = [self.keys.waiters(shard), self.keys.notices(shard), self.keys.errands(shard)];
        let args = NamedArgs::new().with("chain", chain.as_str()).with("waiters", entries);
        let call = ScriptCall::named(&self.scripts.notified, &keys, &args);
        Ok(int_or_zero(&self.connections.call(shard, call).await?) == 1)
    }
}
