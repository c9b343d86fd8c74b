//! Settling claims. Most jobs finish with at most a record; those take the fast path.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Fence, JobRecord, SettleParams, Verdict};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue};

use super::list::is_unlocked;
use super::{by_queue, ms, script_batches};
use crate::chains::outbox::OutboxEntry;
use crate::chains::{SettleChanges, check_next_queue};
use crate::connection::ScriptCall;
use crate::connection::breaker::shard_unreachable_error;
use crate::connection::keys::{is_workflow_queue, kind_letter};
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{UNTRACKED_BIT, array, entry_id, int};
use crate::error::unexpected_reply;
use crate::inspect::record;
use crate::runs::{commit_bytes, concerns_run, removed_event};
use crate::store::RedisStore;

/// The assumed lease of consumers without a recorded lease.
const DEFAULT_LEASE_MS: u64 = 30_000;

/// How long the settlement of a job that was never locked is remembered, so that a repeat has no
/// effect. A worker repeats a settlement while the store is unavailable.
const RELEASED_TTL_MS: u64 = 3_600_000;

/// How long one shard of several has to settle, in several calls if there are many claims.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// The script that settles: one finishes jobs, the other applies any change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettlePath {
    Finish,
    Change,
}

impl RedisStore {
    /// Settles all shards concurrently. If some fail and others reply, the failed verdicts are
    /// unknown.
    pub(crate) async fn settle_claims(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        let SettleParams { settlements, fence } = settle;
        settlements.iter().try_for_each(|settlement| check_next_queue(&settlement.change))?;
        if self.keys.shards() == 1 {
            return self.settle_shard(&settlements.iter().collect::<Vec<_>>(), fence).await;
        }
        let shards = by_shard(settlements);
        let calls = shards.iter().map(|(shard, members)| {
            let part: Vec<&Settlement> = members.iter().map(|&member| &settlements[member]).collect();
            self.settle_if_reachable(*shard, part, fence)
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
        fence: Fence,
    ) -> Result<Vec<Verdict>, Error> {
        if self.breaker.is_open(shard) {
            return Err(shard_unreachable_error(shard));
        }
        self.breaker.with_timeout(shard, SETTLE_TIMEOUT, self.settle_shard(&part, fence)).await
    }

    async fn settle_shard(&self, settlements: &[&Settlement], fence: Fence) -> Result<Vec<Verdict>, Error> {
        let (of_runs, others): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| concerns_run(settlement));
        if of_runs.is_empty() {
            return self.settle_jobs(&others, fence).await;
        }
        if !others.is_empty() && !are_distinct(settlements) {
            // The first of two settlements of one lease counts, so they run in order.
            let mut verdicts = Vec::with_capacity(settlements.len());
            for one in settlements.chunks(1) {
                verdicts.extend(Box::pin(self.settle_shard(one, fence)).await?);
            }
            return Ok(verdicts);
        }
        let (of_runs, others) =
            tokio::try_join!(self.settle_run_jobs(&of_runs, fence), self.settle_jobs(&others, fence))?;
        let (mut of_runs, mut others) = (of_runs.into_iter(), others.into_iter());
        let next = |settlement: &&Settlement| match concerns_run(settlement) {
            true => of_runs.next(),
            false => others.next(),
        };
        settlements.iter().map(next).collect::<Option<_>>().ok_or_else(|| unexpected_reply("settle"))
    }

    /// Settles jobs that concern runs, whatever their queues.
    async fn settle_run_jobs(
        &self,
        settlements: &[&Settlement],
        fence: Fence,
    ) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = Vec::with_capacity(settlements.len());
        let bytes_of = |member: usize| change_bytes(&settlements[member].change);
        for batch in script_batches((0..settlements.len()).collect(), bytes_of) {
            let part: Vec<&Settlement> = batch.iter().map(|&member| settlements[member]).collect();
            verdicts.extend(self.commit_batch(&part, fence).await?.into_iter().map(verdict));
        }
        Ok(verdicts)
    }

    /// Settles each queue separately: a damaged key of one must not lose the verdicts of others.
    async fn settle_jobs(&self, settlements: &[&Settlement], fence: Fence) -> Result<Vec<Verdict>, Error> {
        let (mut verdicts, mut failure) = (vec![Verdict::Unknown; settlements.len()], None);
        for (first, members) in by_queue(settlements.iter().map(|settlement| &settlement.lease)) {
            let reply = self.settle_queue(first, (settlements, members), fence, &mut verdicts).await;
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
        fence: Fence,
        verdicts: &mut [Verdict],
    ) -> Result<(), Error> {
        let shard_queue = (first.shard, &first.queue);
        let bytes_of = |member: usize| change_bytes(&settlements[member].change);
        let groups = by_path(settlements, members, fence).into_iter();
        let groups = groups.flat_map(|(path, members)| {
            script_batches(members, bytes_of).into_iter().map(move |part| (path, part))
        });
        for (path, members) in groups {
            let part: Vec<&Settlement> = members.iter().map(|&member| settlements[member]).collect();
            let reply = match (first.queue.guarantee, path) {
                (Guarantee::AtLeastOnce, SettlePath::Finish) => self.finish(shard_queue, part).await?,
                (Guarantee::AtLeastOnce, SettlePath::Change) => {
                    self.settle_batch(shard_queue, &part, fence).await?
                }
                (Guarantee::AtMostOnce, _) => self.settle_list_jobs(shard_queue, &part, fence).await?,
            };
            for (member, accepted) in members.into_iter().zip(reply) {
                verdicts[member] = verdict(accepted);
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

    async fn settle_list_jobs(
        &self,
        shard_queue: (u16, &Queue),
        part: &[&Settlement],
        fence: Fence,
    ) -> Result<Vec<i64>, Error> {
        let leases = part.iter().map(|settlement| &settlement.lease);
        if part.iter().all(|settlement| is_unlocked(&settlement.lease) && leaves_no_record(settlement)) {
            self.remove_untracked(shard_queue, leases).await;
            return Ok(vec![1; part.len()]);
        }
        let reply = self.settle_batch(shard_queue, part, fence).await?;
        self.remove_untracked(shard_queue, leases).await;
        Ok(reply)
    }

    /// Applies changes to jobs of one queue by one script: for each 1, or 0 if its lease was lost.
    async fn settle_batch(
        &self,
        (shard, queue): (u16, &Queue),
        part: &[&Settlement],
        fence: Fence,
    ) -> Result<Vec<i64>, Error> {
        let mut keys = self.keys.shard_keys(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.cancelled(shard, queue),
            self.keys.leases(shard, queue),
            self.keys.running(shard, queue),
            self.keys.queues(shard),
            self.keys.released(shard),
        ]);
        let settlements = self.settlement_args(shard, part, &mut keys).await?;
        let args = NamedArgs::new()
            .with("channel", self.keys.channel())
            .with("kind", kind_letter(queue))
            .with("queue", queue.name.as_str())
            .with("group", self.group(queue))
            .with("expired", only_expired(fence))
            .with("default_lease", DEFAULT_LEASE_MS)
            .with("released_ttl", RELEASED_TTL_MS)
            .with("settlements", settlements);
        let call = ScriptCall::named(&self.scripts.settle, &keys, &args);
        let reply = self.connections.call(shard, call).await?;
        self.read_verdicts(shard, reply, part.len()).await
    }

    /// Settles jobs that concern runs by one script, whatever their queues.
    async fn commit_batch(&self, part: &[&Settlement], fence: Fence) -> Result<Vec<i64>, Error> {
        let Some(first) = part.first() else { return Ok(Vec::new()) };
        let shard = first.lease.shard;
        let settlements = self.settlement_args(shard, part, &mut Vec::new()).await?;
        let with_queue = |(args, settlement): (NamedArgs, &&Settlement)| {
            let queue = &settlement.lease.queue;
            args.with("kind", kind_letter(queue)).with("queue", queue.name.as_str())
        };
        let args = NamedArgs::new()
            .with("expired", only_expired(fence))
            .with("default_lease", DEFAULT_LEASE_MS)
            .with("removed_event", removed_event())
            .with("settlements", settlements.into_iter().zip(part).map(with_queue).collect::<Vec<_>>());
        let call = self.run_script_call(&self.scripts.commit, shard, args);
        let reply = self.connections.call(shard, call).await?;
        self.read_verdicts(shard, reply, part.len()).await
    }

    /// The tokens and the changes. Adds their keys to those of the script.
    async fn settlement_args(
        &self,
        shard: u16,
        part: &[&Settlement],
        keys: &mut Vec<String>,
    ) -> Result<Vec<NamedArgs>, Error> {
        let changes = part.iter().map(|settlement| (&settlement.lease.job, &settlement.change));
        let changes = SettleChanges::prepare(self, shard, changes).await?;
        let settlement = |(index, settlement): (usize, &&Settlement)| {
            changes.to_args(index, keys).with("token", fence_token(&settlement.lease))
        };
        Ok(part.iter().enumerate().map(settlement).collect())
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

/// The token that fences a lease, as scripts expect it.
fn fence_token(lease: &Lease) -> String {
    match lease.queue.guarantee {
        Guarantee::AtLeastOnce => entry_id(lease.token),
        Guarantee::AtMostOnce if is_unlocked(lease) => format!("u{}", lease.token.0),
        Guarantee::AtMostOnce => lease.token.0.to_string(),
    }
}

fn verdict(accepted: i64) -> Verdict {
    if accepted == 1 { Verdict::Accepted } else { Verdict::LeaseLost }
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
fn by_path(settlements: &[&Settlement], members: Vec<usize>, fence: Fence) -> Vec<(SettlePath, Vec<usize>)> {
    let mut leases = HashSet::with_capacity(members.len());
    // Jobs that were locked together share a token.
    let is_distinct = members.iter().all(|&member| {
        let lease = &settlements[member].lease;
        leases.insert((lease.token, &lease.job))
    });
    let mut groups: Vec<(SettlePath, Vec<usize>)> = Vec::new();
    for member in members {
        let path = path_of(settlements[member], fence);
        match groups.iter_mut().find(|(known, _)| is_distinct && *known == path) {
            Some((_, group)) => group.push(member),
            None => groups.push((path, vec![member])),
        }
    }
    groups
}

fn path_of(settlement: &Settlement, fence: Fence) -> SettlePath {
    match &settlement.change {
        // A finished job of a workflow queue is a message that started a run. Another program chose
        // its id, which may be that of a job.
        Change::Finish(_) if fence == Fence::Current && !is_workflow_queue(&settlement.lease.queue) => {
            SettlePath::Finish
        }
        _ => SettlePath::Change,
    }
}

/// The argument of scripts that settle only expired leases.
fn only_expired(fence: Fence) -> Option<bool> {
    (fence == Fence::Expired).then_some(true)
}

/// Approximate size of a change in bytes.
fn change_bytes(change: &Change) -> usize {
    match change {
        Change::Finish(record) => record.as_ref().map_or(0, |record| record.output.len()),
        Change::Requeue { envelope, .. } => envelope.len(),
        Change::Bury(letter) => letter.bytes.len(),
        Change::Continue(step) => step.job.envelope.len(),
        Change::Commit(commit) => commit_bytes(commit),
        Change::Deliver(delivery) => delivery.entry.bytes.len(),
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
