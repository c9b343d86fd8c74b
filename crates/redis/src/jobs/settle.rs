//! Ending claims. Most jobs end well, and leave a record at most; those take the short way.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{JobRecord, Verdict};
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue};

use super::list::is_unlocked;
use super::{by_place, ms, portions};
use crate::chains::outbox::Errand;
use crate::chains::{Changes, next_queue};
use crate::connection::Call;
use crate::connection::breaker::left_out_error;
use crate::connection::keys::is_of_workflow;
use crate::connection::reply::{UNTRACKED, array, entry_id, int};
use crate::error::odd_answer;
use crate::inspect::record;
use crate::runs::is_of_runs;
use crate::store::RedisStore;

/// What a lease is to someone who never extended it: only used for entries of consumers nobody knows.
pub(crate) const UNKNOWN_LEASE_MS: u64 = 30_000;

/// How long it is known that a job which was never locked has been given up, so that a repeat does nothing. A worker repeats
/// a settlement for as long as the store is away.
const RELEASE_MS: u64 = 3_600_000;

/// How long one shard of several has to end claims, in several trips if there are many. The verdicts of others wait for it.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Which claims may be ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The caller's own.
    Settle,
    /// Those that have run out.
    Rescue,
}

impl Mode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::Rescue => "rescue",
        }
    }
}

/// What one script does: it ends jobs for good, or it makes changes, of which those that go on do so on one queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way<'a> {
    Short,
    Long(Option<&'a Queue>),
}

impl RedisStore {
    pub(crate) async fn settle_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.end_claims(settlements, Mode::Settle).await
    }

    pub(crate) async fn rescue_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.end_claims(settlements, Mode::Rescue).await
    }

    /// Each shard by itself, all at once. Where some fail and others answer, nothing is known of those that failed.
    async fn end_claims(&self, settlements: &[Settlement], mode: Mode) -> Result<Vec<Verdict>, Error> {
        settlements.iter().try_for_each(|settlement| next_queue(&settlement.change).map(drop))?;
        if self.keys.shards() == 1 {
            return self.end_of_shard(&settlements.iter().collect::<Vec<_>>(), mode).await;
        }
        let shards = by_shard(settlements);
        let calls = shards.iter().map(|(shard, members)| {
            let part: Vec<&Settlement> = members.iter().map(|&member| &settlements[member]).collect();
            self.end_in_shard(*shard, part, mode)
        });
        let (mut verdicts, mut answers, mut failure) = (vec![Verdict::Unknown; settlements.len()], 0, None);
        for ((shard, members), answer) in shards.iter().zip(join_all(calls).await) {
            match answer {
                Ok(answer) => {
                    answers += 1;
                    members.iter().zip(answer).for_each(|(&member, verdict)| verdicts[member] = verdict);
                }
                Err(error) => {
                    tracing::debug!(shard, error = error.full_message(), "settlements are in doubt");
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| answers == 0).map_or(Ok(verdicts), Err)
    }

    /// A shard that is known not to answer is not asked: whoever settles tries again, and goes on with others meanwhile.
    async fn end_in_shard(
        &self,
        shard: u16,
        part: Vec<&Settlement>,
        mode: Mode,
    ) -> Result<Vec<Verdict>, Error> {
        if self.breaker.is_open(shard) {
            return Err(left_out_error(shard));
        }
        self.breaker.bounded(shard, SETTLE_TIMEOUT, self.end_of_shard(&part, mode)).await
    }

    async fn end_of_shard(&self, settlements: &[&Settlement], mode: Mode) -> Result<Vec<Verdict>, Error> {
        let (of_runs, others): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| is_of_runs(settlement));
        if of_runs.is_empty() {
            return self.end_others(&others, mode).await;
        }
        if !others.is_empty() && !are_distinct(settlements) {
            // The first of two settlements of one lease counts, so they take their turn.
            let mut verdicts = Vec::with_capacity(settlements.len());
            for one in settlements.chunks(1) {
                verdicts.extend(Box::pin(self.end_of_shard(one, mode)).await?);
            }
            return Ok(verdicts);
        }
        let (of_runs, others) =
            tokio::try_join!(self.end_for_runs(&of_runs, mode), self.end_others(&others, mode))?;
        let (mut of_runs, mut others) = (of_runs.into_iter(), others.into_iter());
        let next = |settlement: &&Settlement| match is_of_runs(settlement) {
            true => of_runs.next(),
            false => others.next(),
        };
        settlements.iter().map(next).collect::<Option<_>>().ok_or_else(|| odd_answer("settle"))
    }

    /// Each queue by itself: a damaged key of one must not lose the verdicts on the jobs of others.
    async fn end_others(&self, settlements: &[&Settlement], mode: Mode) -> Result<Vec<Verdict>, Error> {
        let (mut verdicts, mut failure) = (vec![Verdict::Unknown; settlements.len()], None);
        for (first, members) in by_place(settlements.iter().map(|settlement| &settlement.lease)) {
            let answer = self.end_of_place(first, (settlements, members), mode, &mut verdicts).await;
            let is_silent = answer.as_ref().is_err_and(Error::is_unavailable);
            failure = answer.err().or(failure);
            if is_silent {
                // The server answers for none of its queues.
                break;
            }
        }
        let has_answered = verdicts.iter().any(|verdict| *verdict != Verdict::Unknown);
        failure.filter(|_| !has_answered).map_or(Ok(verdicts), Err)
    }

    async fn end_of_place(
        &self,
        first: &Lease,
        (settlements, members): (&[&Settlement], Vec<usize>),
        mode: Mode,
        verdicts: &mut [Verdict],
    ) -> Result<(), Error> {
        let place = (first.shard, &first.queue);
        let weigh = |member: usize| weight(&settlements[member].change);
        let groups = by_way(settlements, members, mode).into_iter();
        let groups = groups
            .flat_map(|(way, members)| portions(members, weigh).into_iter().map(move |part| (way, part)));
        for (way, members) in groups {
            let part: Vec<&Settlement> = members.iter().map(|&member| settlements[member]).collect();
            let answer = match (first.queue.guarantee, way) {
                (Guarantee::AtLeastOnce, Way::Short) => self.finish(place, part).await?,
                (Guarantee::AtLeastOnce, Way::Long(next)) => {
                    self.settle_entries(place, next, &part, mode).await?
                }
                (Guarantee::AtMostOnce, way) => {
                    let next = if let Way::Long(next) = way { next } else { None };
                    self.release_locks(place, next, &part, mode).await?
                }
            };
            for (member, accepted) in members.into_iter().zip(answer) {
                verdicts[member] = if accepted == 1 { Verdict::Accepted } else { Verdict::LeaseLost };
            }
        }
        Ok(())
    }

    /// The hot path: acknowledge, delete, forget, and keep what is to be kept.
    async fn finish(&self, (shard, queue): (u16, &Queue), part: Vec<&Settlement>) -> Result<Vec<i64>, Error> {
        // The script wants those with a record first, then other tracked ones; `order` remembers where each came from.
        let mut order: Vec<usize> = (0..part.len()).collect();
        order.sort_by_key(|&position| (record_of(part[position]).is_none(), !indexed(part[position])));
        let kept = |&position: &usize| Some((&part[position].lease.job, record_of(part[position])?));
        let records: Vec<(&JobId, &JobRecord)> = order.iter().map_while(kept).collect();
        let tracked = part.iter().filter(|settlement| indexed(settlement)).count();
        let mut keys = self.keys.home(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.cancelled(shard, queue));
        keys.extend(records.iter().map(|(job, _)| self.keys.record(shard, job)));
        let mut call = Call::new(&self.scripts.finish, &keys)
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
        let answer = self.link.call(shard, call).await?;
        if answer == Value::Int(1) {
            return Ok(vec![1; part.len()]);
        }
        let answer = self.accepted(shard, answer, part.len()).await?;
        let mut verdicts = vec![0; part.len()];
        order.into_iter().zip(answer).for_each(|(position, kept)| verdicts[position] = kept);
        Ok(verdicts)
    }

    async fn settle_entries(
        &self,
        (shard, queue): (u16, &Queue),
        next: Option<&Queue>,
        part: &[&Settlement],
        mode: Mode,
    ) -> Result<Vec<i64>, Error> {
        let changes = self.changes(shard, part).await?;
        let mut keys = self.keys_of_ends((shard, queue), self.keys.leases(shard, queue), next);
        (0..part.len()).for_each(|index| changes.push_keys(&mut keys, index));
        let mut call = Call::new(&self.scripts.settle, &keys)
            .arg(self.keys.channel())
            .arg(self.group(queue))
            .arg(queue.name.as_str())
            .arg(next.map_or("", |queue| queue.name.as_str()))
            .arg(mode.word())
            .arg(UNKNOWN_LEASE_MS);
        for (index, settlement) in part.iter().enumerate() {
            call.push(entry_id(settlement.lease.token));
            changes.push_args(&mut call, index);
        }
        let answer = self.link.call(shard, call).await?;
        self.accepted(shard, answer, part.len()).await
    }

    async fn release_locks(
        &self,
        (shard, queue): (u16, &Queue),
        next: Option<&Queue>,
        part: &[&Settlement],
        mode: Mode,
    ) -> Result<Vec<i64>, Error> {
        if part.iter().all(|settlement| is_unlocked(&settlement.lease) && leaves_nothing(settlement)) {
            self.remove_notes((shard, queue), part.iter().map(|settlement| &settlement.lease)).await;
            return Ok(vec![1; part.len()]);
        }
        let changes = self.changes(shard, part).await?;
        let mut keys = self.keys_of_ends((shard, queue), self.keys.running(shard, queue), next);
        keys.push(self.keys.released(shard));
        for (index, settlement) in part.iter().enumerate() {
            keys.push(self.keys.lock(shard, queue, &settlement.lease.job));
            changes.push_keys(&mut keys, index);
        }
        let mut call = Call::new(&self.scripts.release, &keys)
            .arg(self.keys.channel())
            .arg(queue.name.as_str())
            .arg(next.map_or("", |queue| queue.name.as_str()))
            .arg(mode.word())
            .arg(RELEASE_MS);
        for (index, settlement) in part.iter().enumerate() {
            let unlocked = if is_unlocked(&settlement.lease) { "u" } else { "" };
            call.push(format!("{unlocked}{}", settlement.lease.token.0));
            changes.push_args(&mut call, index);
        }
        let answer = self.link.call(shard, call).await?;
        self.remove_notes((shard, queue), part.iter().map(|settlement| &settlement.lease)).await;
        self.accepted(shard, answer, part.len()).await
    }

    async fn changes<'a>(&'a self, shard: u16, part: &[&'a Settlement]) -> Result<Changes<'a>, Error> {
        let changes = part.iter().map(|settlement| (&settlement.lease.job, &settlement.change));
        Changes::of(self, shard, changes).await
    }

    /// The first keys of both scripts that end claims: they differ in where they see who holds what.
    fn keys_of_ends(&self, (shard, queue): (u16, &Queue), held: String, next: Option<&Queue>) -> Vec<String> {
        let mut keys = self.keys.home(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.cancelled(shard, queue),
            held,
        ]);
        keys.extend(self.keys_of_next(shard, next.unwrap_or(queue)));
        keys
    }

    /// What was accepted, once what is owed for it is done.
    async fn accepted(&self, shard: u16, answer: Value, count: usize) -> Result<Vec<i64>, Error> {
        let odd = || odd_answer("settle");
        let mut parts = array(answer).filter(|parts| parts.len() >= count).ok_or_else(odd)?;
        let errands = Errand::all(parts.split_off(count));
        let accepted = parts.iter().map(int).collect::<Option<_>>().ok_or_else(odd)?;
        self.carry_on(shard, errands).await;
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

/// Groups settlements of one place by what one script can do. Two settlements of one lease must take their turn,
/// because the first counts: where there are such, each is a group of its own.
fn by_way<'a>(settlements: &[&'a Settlement], members: Vec<usize>, mode: Mode) -> Vec<(Way<'a>, Vec<usize>)> {
    let mut leases = HashSet::with_capacity(members.len());
    // Jobs that were locked together have one token.
    let is_distinct = members.iter().all(|&member| {
        let lease = &settlements[member].lease;
        leases.insert((lease.token, &lease.job))
    });
    let mut groups: Vec<(Way<'a>, Vec<usize>)> = Vec::new();
    for member in members {
        let way = way_of(settlements[member], mode);
        match groups.iter_mut().find(|(known, _)| is_distinct && *known == way) {
            Some((_, group)) => group.push(member),
            None => groups.push((way, vec![member])),
        }
    }
    groups
}

fn way_of(settlement: &Settlement, mode: Mode) -> Way<'_> {
    match &settlement.change {
        // What is finished on the queue of a workflow is a message that started a run. Another program gave it its id, which
        // may be that of a job.
        Change::Finish(_) if mode == Mode::Settle && !is_of_workflow(&settlement.lease.queue) => Way::Short,
        Change::Continue(step) => Way::Long(Some(&step.queue)),
        _ => Way::Long(None),
    }
}

/// About how many bytes a change comes to.
fn weight(change: &Change) -> usize {
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

fn leaves_nothing(settlement: &Settlement) -> bool {
    matches!(settlement.change, Change::Finish(None))
}

/// Whether the job has an index entry to forget; one whose record is kept counts, whatever its envelope says.
fn indexed(settlement: &Settlement) -> bool {
    settlement.lease.token.0 & UNTRACKED == 0 || record_of(settlement).is_some()
}

fn record_of(settlement: &Settlement) -> Option<&JobRecord> {
    if let Change::Finish(record) = &settlement.change { record.as_ref() } else { None }
}
