//! Settling claims. Most jobs finish with at most a record; those take the fast path.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{JobRecord, Verdict};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue};

use super::list::is_unlocked;
use super::{by_queue, ms, script_batches};
use crate::chains::outbox::OutboxEntry;
use crate::chains::{SettleChanges, next_queue};
use crate::connection::ScriptCall;
use crate::connection::breaker::shard_unreachable_error;
use crate::connection::keys::is_workflow_queue;
use crate::connection::reply::{UNTRACKED_BIT, array, entry_id, int};
use crate::error::unexpected_reply;
use crate::inspect::record;
use crate::runs::concerns_run;
use crate::store::RedisStore;

/// The assumed lease of consumers without a recorded lease.
pub(crate) const DEFAULT_LEASE_MS: u64 = 30_000;

/// How long the settlement of a job that was never locked is remembered, so that a repeat has no
/// effect. A worker repeats a settlement while the store is unavailable.
const RELEASED_TTL_MS: u64 = 3_600_000;

/// How long one shard of several has to settle, in several calls if there are many claims.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Which claims may be settled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettleMode {
    /// The caller's own.
    Settle,
    /// Expired ones.
    Rescue,
}

impl SettleMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::Rescue => "rescue",
        }
    }
}

/// The script that settles: it finishes jobs, or applies changes that continue on one queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettlePath<'a> {
    Finish,
    Change(Option<&'a Queue>),
}

impl RedisStore {
    pub(crate) async fn settle_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.settle_all(settlements, SettleMode::Settle).await
    }

    pub(crate) async fn rescue_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.settle_all(settlements, SettleMode::Rescue).await
    }

    /// Settles all shards concurrently. If some fail and others reply, the failed verdicts are
    /// unknown.
    async fn settle_all(&self, settlements: &[Settlement], mode: SettleMode) -> Result<Vec<Verdict>, Error> {
        settlements.iter().try_for_each(|settlement| next_queue(&settlement.change).map(drop))?;
        if self.keys.shards() == 1 {
            return self.settle_shard(&settlements.iter().collect::<Vec<_>>(), mode).await;
        }
        let shards = by_shard(settlements);
        let calls = shards.iter().map(|(shard, members)| {
            let part: Vec<&Settlement> = members.iter().map(|&member| &settlements[member]).collect();
            self.settle_if_reachable(*shard, part, mode)
        });
        let (mut verdicts, mut replied_shards, mut failure) =
            (vec![Verdict::Unknown; settlements.len()], 0, None);
        for ((shard, members), reply) in shards.iter().zip(join_all(calls).await) {
            match reply {
                Ok(reply) => {
                    replied_shards += 1;
                    members.iter().zip(reply).for_each(|(&member, verdict)| verdicts[member] = verdict);
                }
                Err(error) => {
                    tracing::debug!(
                        shard,
                        error = error.full_message(),
                        "the result of settlements is unknown"
                    );
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| replied_shards == 0).map_or(Ok(verdicts), Err)
    }

    /// Skips an unreachable shard: the caller tries again, and settles others meanwhile.
    async fn settle_if_reachable(
        &self,
        shard: u16,
        part: Vec<&Settlement>,
        mode: SettleMode,
    ) -> Result<Vec<Verdict>, Error> {
        if self.breaker.is_open(shard) {
            return Err(shard_unreachable_error(shard));
        }
        self.breaker.with_timeout(shard, SETTLE_TIMEOUT, self.settle_shard(&part, mode)).await
    }

    async fn settle_shard(
        &self,
        settlements: &[&Settlement],
        mode: SettleMode,
    ) -> Result<Vec<Verdict>, Error> {
        let (of_runs, others): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| concerns_run(settlement));
        if of_runs.is_empty() {
            return self.settle_jobs(&others, mode).await;
        }
        if !others.is_empty() && !are_distinct(settlements) {
            // The first of two settlements of one lease counts, so they run in order.
            let mut verdicts = Vec::with_capacity(settlements.len());
            for one in settlements.chunks(1) {
                verdicts.extend(Box::pin(self.settle_shard(one, mode)).await?);
            }
            return Ok(verdicts);
        }
        let (of_runs, others) =
            tokio::try_join!(self.settle_for_runs(&of_runs, mode), self.settle_jobs(&others, mode))?;
        let (mut of_runs, mut others) = (of_runs.into_iter(), others.into_iter());
        let next = |settlement: &&Settlement| match concerns_run(settlement) {
            true => of_runs.next(),
            false => others.next(),
        };
        settlements.iter().map(next).collect::<Option<_>>().ok_or_else(|| unexpected_reply("settle"))
    }

    /// Settles each queue separately: a damaged key of one must not lose the verdicts of others.
    async fn settle_jobs(
        &self,
        settlements: &[&Settlement],
        mode: SettleMode,
    ) -> Result<Vec<Verdict>, Error> {
        let (mut verdicts, mut failure) = (vec![Verdict::Unknown; settlements.len()], None);
        for (first, members) in by_queue(settlements.iter().map(|settlement| &settlement.lease)) {
            let reply = self.settle_queue(first, (settlements, members), mode, &mut verdicts).await;
            let is_silent = reply.as_ref().is_err_and(Error::is_unavailable);
            failure = reply.err().or(failure);
            if is_silent {
                // The server responds for none of its queues.
                break;
            }
        }
        let has_answered = verdicts.iter().any(|verdict| *verdict != Verdict::Unknown);
        failure.filter(|_| !has_answered).map_or(Ok(verdicts), Err)
    }

    async fn settle_queue(
        &self,
        first: &Lease,
        (settlements, members): (&[&Settlement], Vec<usize>),
        mode: SettleMode,
        verdicts: &mut [Verdict],
    ) -> Result<(), Error> {
        let shard_queue = (first.shard, &first.queue);
        let bytes_of = |member: usize| change_bytes(&settlements[member].change);
        let groups = by_path(settlements, members, mode).into_iter();
        let groups = groups.flat_map(|(path, members)| {
            script_batches(members, bytes_of).into_iter().map(move |part| (path, part))
        });
        for (path, members) in groups {
            let part: Vec<&Settlement> = members.iter().map(|&member| settlements[member]).collect();
            let reply = match (first.queue.guarantee, path) {
                (Guarantee::AtLeastOnce, SettlePath::Finish) => self.finish(shard_queue, part).await?,
                (Guarantee::AtLeastOnce, SettlePath::Change(next)) => {
                    self.settle_entries(shard_queue, next, &part, mode).await?
                }
                (Guarantee::AtMostOnce, path) => {
                    let next = if let SettlePath::Change(next) = path { next } else { None };
                    self.release_locks(shard_queue, next, &part, mode).await?
                }
            };
            for (member, accepted) in members.into_iter().zip(reply) {
                verdicts[member] = if accepted == 1 { Verdict::Accepted } else { Verdict::LeaseLost };
            }
        }
        Ok(())
    }

    /// The fast path: acknowledges, deletes and unindexes jobs, and stores records.
    async fn finish(&self, (shard, queue): (u16, &Queue), part: Vec<&Settlement>) -> Result<Vec<i64>, Error> {
        // The script expects jobs with a record first, then other tracked ones; `order` maps back.
        let mut order: Vec<usize> = (0..part.len()).collect();
        order.sort_by_key(|&position| (record_of(part[position]).is_none(), !is_indexed(part[position])));
        let kept = |&position: &usize| Some((&part[position].lease.job, record_of(part[position])?));
        let records: Vec<(&JobId, &JobRecord)> = order.iter().map_while(kept).collect();
        let tracked = part.iter().filter(|settlement| is_indexed(settlement)).count();
        let mut keys = self.keys.shard_keys(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.cancelled(shard, queue));
        keys.extend(records.iter().map(|(job, _)| self.keys.record(shard, job)));
        let mut call = ScriptCall::new(&self.scripts.finish, &keys)
            .arg(self.keys.channel())
            .arg(self.group(queue))
            .arg(part.len())
            .arg(tracked)
            .arg(records.len());
        order.iter().for_each(|&position| call.push(entry_id(part[position].lease.token)));
        order[..tracked].iter().for_each(|&position| call.push(part[position].lease.job.chain().as_str()));
        for (_, record) in records {
            call.push(ms(record.keep));
            call.push(&record::write(record)[..]);
        }
        let reply = self.connections.call(shard, call).await?;
        if reply == Value::Int(1) {
            return Ok(vec![1; part.len()]);
        }
        let reply = self.read_verdicts(shard, reply, part.len()).await?;
        let mut verdicts = vec![0; part.len()];
        order.into_iter().zip(reply).for_each(|(position, kept)| verdicts[position] = kept);
        Ok(verdicts)
    }

    async fn settle_entries(
        &self,
        (shard, queue): (u16, &Queue),
        next: Option<&Queue>,
        part: &[&Settlement],
        mode: SettleMode,
    ) -> Result<Vec<i64>, Error> {
        let changes = self.changes(shard, part).await?;
        let mut keys = self.settle_keys((shard, queue), self.keys.leases(shard, queue), next);
        (0..part.len()).for_each(|index| changes.push_keys(&mut keys, index));
        let mut call = ScriptCall::new(&self.scripts.settle, &keys)
            .arg(self.keys.channel())
            .arg(self.group(queue))
            .arg(queue.name.as_str())
            .arg(next.map_or("", |queue| queue.name.as_str()))
            .arg(mode.as_str())
            .arg(DEFAULT_LEASE_MS);
        for (index, settlement) in part.iter().enumerate() {
            call.push(entry_id(settlement.lease.token));
            changes.push_args(&mut call, index);
        }
        let reply = self.connections.call(shard, call).await?;
        self.read_verdicts(shard, reply, part.len()).await
    }

    async fn release_locks(
        &self,
        (shard, queue): (u16, &Queue),
        next: Option<&Queue>,
        part: &[&Settlement],
        mode: SettleMode,
    ) -> Result<Vec<i64>, Error> {
        if part.iter().all(|settlement| is_unlocked(&settlement.lease) && leaves_no_record(settlement)) {
            self.remove_untracked((shard, queue), part.iter().map(|settlement| &settlement.lease)).await;
            return Ok(vec![1; part.len()]);
        }
        let changes = self.changes(shard, part).await?;
        let mut keys = self.settle_keys((shard, queue), self.keys.running(shard, queue), next);
        keys.push(self.keys.released(shard));
        for (index, settlement) in part.iter().enumerate() {
            keys.push(self.keys.lock(shard, queue, &settlement.lease.job));
            changes.push_keys(&mut keys, index);
        }
        let mut call = ScriptCall::new(&self.scripts.release, &keys)
            .arg(self.keys.channel())
            .arg(queue.name.as_str())
            .arg(next.map_or("", |queue| queue.name.as_str()))
            .arg(mode.as_str())
            .arg(RELEASED_TTL_MS);
        for (index, settlement) in part.iter().enumerate() {
            let unlocked = if is_unlocked(&settlement.lease) { "u" } else { "" };
            call.push(format!("{unlocked}{}", settlement.lease.token.0));
            changes.push_args(&mut call, index);
        }
        let reply = self.connections.call(shard, call).await?;
        self.remove_untracked((shard, queue), part.iter().map(|settlement| &settlement.lease)).await;
        self.read_verdicts(shard, reply, part.len()).await
    }

    async fn changes<'a>(&'a self, shard: u16, part: &[&'a Settlement]) -> Result<SettleChanges<'a>, Error> {
        let changes = part.iter().map(|settlement| (&settlement.lease.job, &settlement.change));
        SettleChanges::prepare(self, shard, changes).await
    }

    /// The first keys of both settling scripts: they differ in the key with the holders.
    fn settle_keys(&self, (shard, queue): (u16, &Queue), held: String, next: Option<&Queue>) -> Vec<String> {
        let mut keys = self.keys.shard_keys(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.cancelled(shard, queue),
            held,
        ]);
        keys.extend(self.next_queue_keys(shard, next.unwrap_or(queue)));
        keys
    }

    /// Parses the verdicts, and processes the outbox.
    async fn read_verdicts(&self, shard: u16, reply: Value, count: usize) -> Result<Vec<i64>, Error> {
        let unexpected = || unexpected_reply("settle");
        let mut parts = array(reply).filter(|parts| parts.len() >= count).ok_or_else(unexpected)?;
        let outbox = OutboxEntry::parse_all(parts.split_off(count));
        let accepted = parts.iter().map(int).collect::<Option<_>>().ok_or_else(unexpected)?;
        self.process_outbox(shard, outbox).await;
        Ok(accepted)
    }
}

/// The positions of settlements by shard.
fn by_shard(settlements: &[Settlement]) -> Vec<(u16, Vec<usize>)> {
    let mut shards: Vec<(u16, Vec<usize>)> = Vec::new();
    for (position, Settlement { lease, .. }) in settlements.iter().enumerate() {
        match shards.iter_mut().find(|(shard, _)| *shard == lease.shard) {
            Some((_, members)) => members.push(position),
            None => shards.push((lease.shard, vec![position])),
        }
    }
    shards
}

/// Groups settlements of one queue by script. Two settlements of one lease must run in order,
/// because the first counts: then each is its own group.
fn by_path<'a>(
    settlements: &[&'a Settlement],
    members: Vec<usize>,
    mode: SettleMode,
) -> Vec<(SettlePath<'a>, Vec<usize>)> {
    let mut leases = HashSet::with_capacity(members.len());
    // Jobs that were locked together share a token.
    let is_distinct = members.iter().all(|&member| {
        let lease = &settlements[member].lease;
        leases.insert((lease.token, &lease.job))
    });
    let mut groups: Vec<(SettlePath<'a>, Vec<usize>)> = Vec::new();
    for member in members {
        let path = path_of(settlements[member], mode);
        match groups.iter_mut().find(|(known, _)| is_distinct && *known == path) {
            Some((_, group)) => group.push(member),
            None => groups.push((path, vec![member])),
        }
    }
    groups
}

fn path_of(settlement: &Settlement, mode: SettleMode) -> SettlePath<'_> {
    match &settlement.change {
        // A finished job of a workflow queue is a message that started a run. Another program chose
        // its id, which may be that of a job.
        Change::Finish(_) if mode == SettleMode::Settle && !is_workflow_queue(&settlement.lease.queue) => {
            SettlePath::Finish
        }
        Change::Continue(step) => SettlePath::Change(Some(&step.queue)),
        _ => SettlePath::Change(None),
    }
}

/// Approximate size of a change in bytes.
fn change_bytes(change: &Change) -> usize {
    match change {
        Change::Finish(record) => record.as_ref().map_or(0, |record| record.output.len()),
        Change::Requeue { envelope, .. } => envelope.len(),
        Change::Bury(letter) => letter.bytes.len(),
        Change::Continue(step) => step.job.envelope.len(),
        _ => 0,
    }
}

/// Whether no lease is settled twice.
fn are_distinct(settlements: &[&Settlement]) -> bool {
    let mut leases = HashSet::with_capacity(settlements.len());
    settlements.iter().all(|Settlement { lease, .. }| leases.insert(lease))
}

fn leaves_no_record(settlement: &Settlement) -> bool {
    matches!(settlement.change, Change::Finish(None))
}

/// Whether the job has an index entry to remove; one with a record counts, whatever its envelope
/// says.
fn is_indexed(settlement: &Settlement) -> bool {
    settlement.lease.token.0 & UNTRACKED_BIT == 0 || record_of(settlement).is_some()
}

fn record_of(settlement: &Settlement) -> Option<&JobRecord> {
    if let Change::Finish(record) = &settlement.change { record.as_ref() } else { None }
}
