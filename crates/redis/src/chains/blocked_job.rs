//! Blocked jobs as stored, and notifying them about the chains they wait for.

use bytes::Bytes;
use redis::Value;
use tidemill_core::chain::Blocker;
use tidemill_core::{Error, JobId, Queue, QueueName};

use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, int, ints, text};
use crate::error::unexpected_reply;
use crate::inspect::record;
use crate::store::RedisStore;

/// A blocked job.
#[derive(Debug)]
pub(crate) struct BlockedJob {
    pub(crate) job: JobId,
    pub(crate) queue: Queue,
    pub(crate) envelope: Bytes,
    /// Whether it was blocked when enqueued; else a chain has continued to it.
    pub(crate) is_new: bool,
    /// The chains it still waits for, in order.
    pub(crate) open: Vec<OpenBlocker>,
}

/// A chain that a job still waits for.
#[derive(Debug)]
pub(crate) struct OpenBlocker {
    /// Its number among the job's blockers, from 1 on.
    pub(crate) position: u32,
    pub(crate) chain: JobId,
    /// Whether the job is registered in the chain's shard.
    pub(crate) registered: bool,
}

impl OpenBlocker {
    /// `POSITION -CHAIN`, or `?` in place of the minus.
    fn parse(value: &str) -> Option<Self> {
        let (position, chain) = value.split_once(' ')?;
        let (registered, chain) = (chain.starts_with('-'), chain.get(1..)?);
        Some(Self { position: position.parse().ok()?, chain: JobId::new(chain).ok()?, registered })
    }
}

impl BlockedJob {
    fn parse(value: Value) -> Option<Self> {
        let mut parts = array(value)?.into_iter();
        let job = JobId::new(&text(parts.next()?)?).ok()?;
        let queue = Queue::at_least_once(QueueName::new(&text(parts.next()?)?).ok()?);
        let envelope = bytes(parts.next()?)?;
        let is_new = text(parts.nth(1)?)? == "new";
        let open = parts.filter_map(|part| OpenBlocker::parse(&text(part)?)).collect();
        Some(Self { job, queue, envelope, is_new, open })
    }
}

/// The job as a member of `waiters`.
pub(super) fn waiter_member(
    chain: &JobId,
    wait_id: &str,
    position: u32,
    (queue, job): (&Queue, &JobId),
) -> String {
    format!("{chain} {wait_id} {position} {} {job}", queue.name)
}

/// The status of chains that one job waits for.
pub(super) struct BlockerUpdate {
    pub(super) job: JobId,
    pub(super) wait_id: String,
    /// Positions and statuses.
    pub(super) statuses: Vec<(u32, BlockerStatus)>,
}

impl BlockerUpdate {
    fn to_args(&self) -> NamedArgs {
        let chain = |(position, status): &(u32, BlockerStatus)| {
            let notice = match status {
                BlockerStatus::Open => None,
                BlockerStatus::Closed(index) => Some(index + 1),
            };
            NamedArgs::new().with("position", *position).with("notice", notice)
        };
        NamedArgs::new()
            .with("id", self.job.as_str())
            .with("wait_id", &self.wait_id)
            .with("chains", self.statuses.iter().map(chain).collect::<Vec<_>>())
    }
}

/// The status of one chain: open and registered, or closed.
#[derive(Clone, Copy)]
pub(super) enum BlockerStatus {
    Open,
    /// Closed, with this notice of the list.
    Closed(usize),
}

/// The reply of `notify_blocked` for a damaged wait.
const DAMAGED_WAIT: i64 = 3;

/// Whether a job was blocked when it was notified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NotifyResult {
    /// It did not wait any more.
    NotBlocked,
    /// It was blocked, whether it still is or not.
    Notified,
}

impl RedisStore {
    /// Reads blocked jobs by their wait ids, with at most so many chains of each.
    pub(crate) async fn blocked_jobs(
        &self,
        shard: u16,
        wait_ids: &[&str],
        max_chains: usize,
    ) -> Result<Vec<Option<BlockedJob>>, Error> {
        if wait_ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<String> = wait_ids.iter().map(|wait_id| self.keys.waits(shard, wait_id)).collect();
        let reply = self
            .connections
            .call(shard, ScriptCall::new(&self.scripts.read_waits, &keys).arg(max_chains))
            .await?;
        let items = array(reply).ok_or_else(|| unexpected_reply("read_waits"))?;
        Ok(items.into_iter().map(BlockedJob::parse).collect())
    }

    /// Notifies jobs of one queue and shard. A job becomes ready with its last notice.
    pub(super) async fn notify_blocked(
        &self,
        (shard, queue): (u16, &Queue),
        notices: &[Bytes],
        updates: &[BlockerUpdate],
    ) -> Result<Vec<NotifyResult>, Error> {
        let mut keys = self.keys.shard_keys(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.scheduled(shard, queue));
        keys.push(self.keys.blocked(shard, queue));
        keys.extend(updates.iter().map(|update| self.keys.waits(shard, &update.wait_id)));
        let args = NamedArgs::new()
            .with("channel", self.keys.channel())
            .with("queue", queue.name.as_str())
            .with("notices", notices)
            .with("jobs", updates.iter().map(BlockerUpdate::to_args).collect::<Vec<_>>());
        let call = ScriptCall::named(&self.scripts.notify_blocked, &keys, &args);
        let reply = ints(self.connections.call(shard, call).await?, "notify_blocked")?;
        // The others have been notified; the outbox entry notifies this one again.
        if let Some(damaged) = reply.iter().position(|&state| state == DAMAGED_WAIT) {
            let key = self.keys.waits(shard, &updates[damaged].wait_id);
            let job = &updates[damaged].job;
            return Err(Error::Unsuitable(format!("notify_blocked: `{key}` holds no wait of job {job}")));
        }
        Ok(reply
            .into_iter()
            .map(|state| if state == 0 { NotifyResult::NotBlocked } else { NotifyResult::Notified })
            .collect())
    }

    /// Removes registrations, best effort: a remaining one has no effect, since its job is not
    /// blocked.
    pub(crate) async fn unregister(
        &self,
        wait_id: &str,
        job: (&Queue, &JobId),
        chains: impl IntoIterator<Item = (u32, JobId)>,
    ) {
        let mut by_shard: Vec<(u16, Vec<String>)> = Vec::new();
        for (position, chain) in chains {
            let (shard, entry) = (self.keys.shard_of(&chain), waiter_member(&chain, wait_id, position, job));
            match by_shard.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, entries)) => entries.push(entry),
                None => by_shard.push((shard, vec![entry])),
            }
        }
        for (shard, entries) in by_shard {
            let remove = redis::cmd("ZREM").arg(self.keys.waiters(shard)).arg(entries).take();
            if let Err(error) = self.connections.query::<i64>(shard, &remove).await {
                tracing::debug!(
                    error = error.full_message(),
                    "cannot remove registrations of a removed job yet"
                );
            }
        }
    }
}

/// The notice of a chain by its record; without one it was removed.
pub(super) fn notice_from_record(chain: &JobId, record: &[u8]) -> Bytes {
    match record::read(&chain.chain(), record) {
        Ok(record) => Blocker::notice(&record),
        Err(_) => Blocker::removed_notice(chain),
    }
}

/// The integer of a reply, or 0.
pub(super) fn int_or_zero(value: &Value) -> i64 {
    int(value).unwrap_or(0)
}
