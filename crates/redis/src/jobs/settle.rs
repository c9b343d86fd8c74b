//! Ending claims. Most jobs end well and leave nothing behind; those take the short way.

use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{Verdict, Wake};
use tidemill_core::{Delivery, Envelope, Error};

use super::list::UNLOCKED;
use super::{by_place, ms};
use crate::inspect::record;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{UNTRACKED, entry_id, ints};

/// What a lease is to someone who never extended it: only used for entries of consumers nobody knows.
const UNKNOWN_LEASE_MS: u64 = 30_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Settle,
    Rescue,
}

impl RedisStore {
    pub(crate) async fn settle_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.end_claims(settlements, Mode::Settle).await
    }

    pub(crate) async fn rescue_claims(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.end_claims(settlements, Mode::Rescue).await
    }

    async fn end_claims(&self, settlements: &[Settlement], mode: Mode) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = vec![Verdict::Accepted; settlements.len()];
        for (first, members) in by_place(settlements.iter().map(|settlement| &settlement.lease)) {
            let place = (first.shard, &first.queue);
            let short = |member: &usize| mode == Mode::Settle && leaves_nothing(&settlements[*member]);
            let (mut plain, mut special): (Vec<usize>, Vec<usize>) = members.into_iter().partition(short);
            let token = |member: &usize| settlements[*member].lease.token;
            // Two settlements of one lease must take their turn: the first counts.
            if special.iter().any(|one| plain.iter().any(|other| token(one) == token(other))) {
                special.append(&mut plain);
                special.sort_unstable();
            }
            for (members, is_plain) in [(plain, true), (special, false)] {
                if members.is_empty() {
                    continue;
                }
                let part: Vec<&Settlement> = members.iter().map(|&member| &settlements[member]).collect();
                let answer = match first.queue.delivery {
                    Delivery::AtLeastOnce if is_plain => self.finish(place, part).await?,
                    Delivery::AtLeastOnce => self.settle_entries(place, &part, mode).await?,
                    Delivery::AtMostOnce => self.release_locks(place, &part, mode).await?,
                };
                for (member, accepted) in members.into_iter().zip(answer) {
                    verdicts[member] = if accepted == 1 { Verdict::Accepted } else { Verdict::LeaseLost };
                }
            }
        }
        Ok(verdicts)
    }

    /// The hot path: acknowledge, delete, forget.
    async fn finish(
        &self,
        (shard, queue): (u16, &tidemill_core::Queue),
        part: Vec<&Settlement>,
    ) -> Result<Vec<i64>, Error> {
        // The script wants tracked ones first; `order` remembers where each came from.
        let mut order: Vec<usize> = (0..part.len()).collect();
        order.sort_by_key(|&position| !indexed(part[position]));
        let tracked = part.iter().filter(|settlement| indexed(settlement)).count();
        let keys = [self.keys.target(shard, queue), self.keys.jobs(shard), self.keys.cancelled(shard, queue)];
        let mut call =
            Call::new(&self.scripts.finish, &keys).arg(self.group(queue)).arg(part.len()).arg(tracked);
        order.iter().for_each(|&position| call.push(entry_id(part[position].lease.token)));
        order[..tracked].iter().for_each(|&position| call.push(part[position].lease.job.as_str()));
        let answer = self.link.call(shard, call).await?;
        if answer == Value::Int(1) {
            return Ok(vec![1; part.len()]);
        }
        let mut verdicts = vec![0; part.len()];
        order.into_iter().zip(ints(answer, "finish")?).for_each(|(position, kept)| verdicts[position] = kept);
        Ok(verdicts)
    }

    async fn settle_entries(
        &self,
        (shard, queue): (u16, &tidemill_core::Queue),
        part: &[&Settlement],
        mode: Mode,
    ) -> Result<Vec<i64>, Error> {
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.jobs(shard),
            self.keys.cancelled(shard, queue),
            self.keys.leases(shard, queue),
        ];
        keys.extend(part.iter().map(|settlement| self.keys.record(shard, &settlement.lease.job)));
        let mut call = Call::new(&self.scripts.settle, &keys)
            .arg(self.group(queue))
            .arg(queue.name.as_str())
            .arg(self.keys.channel())
            .arg(Wake::Sooner(queue.clone()).to_string())
            .arg(if mode == Mode::Rescue { "rescue" } else { "settle" })
            .arg(UNKNOWN_LEASE_MS);
        for settlement in part {
            call.push(entry_id(settlement.lease.token));
            push_change(&mut call, settlement);
        }
        ints(self.link.call(shard, call).await?, "settle")
    }

    async fn release_locks(
        &self,
        (shard, queue): (u16, &tidemill_core::Queue),
        part: &[&Settlement],
        mode: Mode,
    ) -> Result<Vec<i64>, Error> {
        if part.iter().all(|settlement| settlement.lease.token == UNLOCKED && leaves_nothing(settlement)) {
            return Ok(vec![1; part.len()]);
        }
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.jobs(shard),
            self.keys.cancelled(shard, queue),
            self.keys.running(shard, queue),
        ];
        for settlement in part {
            keys.push(self.keys.lock(shard, queue, &settlement.lease.job));
            keys.push(self.keys.record(shard, &settlement.lease.job));
        }
        let mut call = Call::new(&self.scripts.release, &keys)
            .arg(queue.name.as_str())
            .arg(self.keys.channel())
            .arg(Wake::Sooner(queue.clone()).to_string())
            .arg(if mode == Mode::Rescue { "rescue" } else { "settle" });
        for settlement in part {
            call.push(settlement.lease.token.0.to_string());
            push_change(&mut call, settlement);
        }
        ints(self.link.call(shard, call).await?, "release")
    }
}

fn leaves_nothing(settlement: &Settlement) -> bool {
    matches!(settlement.change, Change::Finish(None))
}

/// Whether the job has an index entry to forget.
fn indexed(settlement: &Settlement) -> bool {
    settlement.lease.token.0 & UNTRACKED == 0
}

fn push_change(call: &mut Call<'_>, settlement: &Settlement) {
    call.push(settlement.lease.job.as_str());
    match &settlement.change {
        Change::Finish(None) => push_op(call, ("1", "finish", &[], 0)),
        Change::Finish(Some(end)) => push_op(call, ("1", "finish", &record::write(end), ms(end.keep))),
        Change::Continue(_) => unimplemented!(),
        Change::Bury(letter) => push_op(call, ("1", "bury", &letter.bytes, 0)),
        Change::Requeue { envelope, delay } => {
            let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
            let delay = if delay.is_zero() { 0 } else { ms(*delay) };
            push_op(call, (if tracked { "1" } else { "0" }, "requeue", envelope, delay));
        }
    }
}

fn push_op(call: &mut Call<'_>, (tracked, op, data, ms): (&str, &str, &[u8], i64)) {
    call.push(tracked);
    call.push(op);
    call.push(data);
    call.push(ms);
}
