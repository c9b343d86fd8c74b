//! Registering a blocked job with the chains it waits for, in their shards.

use bytes::Bytes;
use futures_util::future::try_join_all;
use tidemill_core::chain::Blocker;
use tidemill_core::limits::MAX_BLOCKERS;
use tidemill_core::{Error, JobId};

use super::blocked_job::{
    BlockedJob, BlockerStatus, BlockerUpdate, NotifyResult, OpenBlocker, notice_from_record, waiter_member,
};
use super::outbox::{OutboxEntry, OutboxResult};
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes};
use crate::error::unexpected_reply;
use crate::jobs::locate::JobLocation;
use crate::store::RedisStore;

/// The result for one chain.
enum RegisterResult {
    /// It is open, and the job is registered.
    Open,
    /// It has closed, with this notice.
    Closed(Bytes),
    /// It does not exist.
    Missing,
}

impl RedisStore {
    /// Registers a job with its unregistered blockers, and notifies it of those that have closed.
    pub(super) async fn register_wait(&self, shard: u16, wait_id: &str) -> Result<OutboxResult, Error> {
        let Some(wait) = self.blocked_jobs(shard, &[wait_id], MAX_BLOCKERS).await?.pop().flatten() else {
            self.delete_outbox_entry(shard, &OutboxEntry::Register { wait_id: wait_id.to_owned() }).await?;
            return Ok(OutboxResult::Done);
        };
        let unregistered: Vec<&OpenBlocker> =
            wait.open.iter().filter(|blocking| !blocking.registered).collect();
        let results = self.register_all(wait_id, &wait, &unregistered).await?;
        let missing = results.iter().find(|(_, results)| matches!(results, RegisterResult::Missing));
        if let Some((blocking, _)) = missing.filter(|_| wait.is_new) {
            self.withdraw((shard, wait_id), &wait, &unregistered).await?;
            return Ok(OutboxResult::BlockerMissing(blocking.chain.clone()));
        }
        let mut notices = Vec::new();
        let statuses = results
            .into_iter()
            .map(|(blocking, results)| (blocking.position, blocker_status(blocking, results, &mut notices)));
        let message = BlockerUpdate {
            job: wait.job.clone(),
            wait_id: wait_id.to_owned(),
            statuses: statuses.collect(),
        };
        let informed = self.notify_blocked((shard, &wait.queue), &notices, &[message]).await?;
        if informed.contains(&NotifyResult::NotBlocked) {
            self.unregister_again(wait_id, &wait, &unregistered).await;
        }
        Ok(OutboxResult::Done)
    }

    async fn register_all<'a>(
        &self,
        wait_id: &str,
        wait: &BlockedJob,
        unregistered: &[&'a OpenBlocker],
    ) -> Result<Vec<(&'a OpenBlocker, RegisterResult)>, Error> {
        let in_shard = |shard: u16| {
            let here = unregistered.iter().filter(|blocking| self.keys.shard_of(&blocking.chain) == shard);
            (shard, here.copied().collect::<Vec<_>>())
        };
        let parts = (0..self.keys.shards()).map(in_shard).filter(|(_, part)| !part.is_empty());
        let replies = parts.map(|(shard, part)| self.register_waits_in(shard, wait_id, wait, part));
        Ok(try_join_all(replies).await?.into_iter().flatten().collect())
    }

    async fn register_waits_in<'a>(
        &self,
        shard: u16,
        wait_id: &str,
        wait: &BlockedJob,
        part: Vec<&'a OpenBlocker>,
    ) -> Result<Vec<(&'a OpenBlocker, RegisterResult)>, Error> {
        let mut keys = vec![self.keys.jobs(shard), self.keys.waiters(shard), self.keys.notices(shard)];
        keys.extend(part.iter().map(|blocking| self.keys.record(shard, &blocking.chain)));
        let chain = |blocking: &&OpenBlocker| {
            let job = (&wait.queue, &wait.job);
            NamedArgs::new()
                .with("chain", blocking.chain.as_str())
                .with("waiter", waiter_member(&blocking.chain, wait_id, blocking.position, job))
        };
        let args = NamedArgs::new().with("chains", part.iter().map(chain).collect::<Vec<_>>());
        let call = ScriptCall::named(&self.scripts.register_wait, &keys, &args);
        let unexpected = || unexpected_reply("register_wait");
        let replies = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
        let read = |(blocking, reply)| Some((blocking, parse_result(blocking, &bytes(reply)?)?));
        part.into_iter().zip(replies).map(read).collect::<Option<_>>().ok_or_else(unexpected)
    }

    /// Removes a job whose blocker is gone.
    async fn withdraw(
        &self,
        (shard, wait_id): (u16, &str),
        wait: &BlockedJob,
        unregistered: &[&OpenBlocker],
    ) -> Result<(), Error> {
        let location = JobLocation::blocked(shard, wait.queue.clone(), (&wait.job, wait_id));
        self.cancel_at(&wait.job, &location).await?;
        self.unregister_again(wait_id, wait, unregistered).await;
        Ok(())
    }

    /// Removes the registrations of a job that has left: its removal may have been earlier.
    async fn unregister_again(&self, wait_id: &str, wait: &BlockedJob, unregistered: &[&OpenBlocker]) {
        let chains = unregistered.iter().map(|blocking| (blocking.position, blocking.chain.clone()));
        self.unregister(wait_id, (&wait.queue, &wait.job), chains.collect::<Vec<_>>()).await;
    }
}

fn parse_result(blocking: &OpenBlocker, reply: &[u8]) -> Option<RegisterResult> {
    match reply {
        b"open" => Some(RegisterResult::Open),
        b"missing" => Some(RegisterResult::Missing),
        b"removed" => Some(RegisterResult::Closed(Blocker::removed_notice(&blocking.chain))),
        _ => Some(RegisterResult::Closed(notice_from_record(&blocking.chain, reply.strip_prefix(b"kept")?))),
    }
}

/// A missing chain counts as removed if another chain has continued to wait for it.
fn blocker_status(
    blocking: &OpenBlocker,
    results: RegisterResult,
    notices: &mut Vec<Bytes>,
) -> BlockerStatus {
    let notice = match results {
        RegisterResult::Open => return BlockerStatus::Open,
        RegisterResult::Closed(notice) => notice,
        RegisterResult::Missing => Blocker::removed_notice(&blocking.chain),
    };
    notices.push(notice);
    BlockerStatus::Closed(notices.len() - 1)
}

/// A new id of a wait.
pub(super) fn new_wait_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// Whether a chain is in this shard, as an argument of scripts.
pub(super) fn blocker_locality(store: &RedisStore, shard: u16, chain: &JobId) -> &'static str {
    if store.keys.shard_of(chain) == shard { "here" } else { "away" }
}
