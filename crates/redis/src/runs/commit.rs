//! Ending claims by which runs go on: all of a shard in one trip, whatever their queues.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{Delivery, Effect};
use tidemill_core::{Error, Guarantee as Promise, JobId};

use super::effects::{push_commit, push_delivery, weight};
use super::push_removal;
use super::stage::Given;
use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::keys::letter;
use crate::connection::reply::{array, entry_id, int};
use crate::error::odd_answer;
use crate::jobs::locate::Place;
use crate::jobs::{Mode, UNKNOWN_LEASE_MS, lock_token, ms, portions};
use crate::store::RedisStore;

/// Whether a run goes on by this settlement, or may: one that puts an activity back removes it, if it is to be cancelled.
pub(crate) fn is_of_runs(settlement: &Settlement) -> bool {
    match settlement.change {
        Change::Commit(_) | Change::Deliver(_) => true,
        Change::Requeue { .. } => settlement.lease.job.is_activity(),
        _ => false,
    }
}

impl RedisStore {
    pub(crate) async fn end_for_runs(
        &self,
        settlements: &[&Settlement],
        mode: Mode,
    ) -> Result<Vec<Verdict>, Error> {
        let mut shards = vec![Vec::new(); usize::from(self.keys.shards())];
        for (position, settlement) in settlements.iter().enumerate() {
            shards[usize::from(settlement.lease.shard)].push(position);
        }
        let there = (0..).zip(shards).filter(|(_, members)| !members.is_empty());
        let end = |(shard, members)| self.end_in(shard, (settlements, members), mode);
        let mut verdicts = vec![Verdict::LeaseLost; settlements.len()];
        for (position, verdict) in try_join_all(there.map(end)).await?.into_iter().flatten() {
            verdicts[position] = verdict;
        }
        Ok(verdicts)
    }

    async fn end_in(
        &self,
        shard: u16,
        (settlements, members): (&[&Settlement], Vec<usize>),
        mode: Mode,
    ) -> Result<Vec<(usize, Verdict)>, Error> {
        let mut verdicts = Vec::with_capacity(members.len());
        let mut effects = HashMap::with_capacity(members.len());
        for &member in &members {
            if let Change::Commit(commit) = &settlements[member].change {
                effects.insert(member, self.stage_effects(shard, &commit.effects).await?);
            }
        }
        let weigh = |member: usize| weigh(&settlements[member].change, effects.get(&member));
        for portion in portions(members, weigh) {
            let mut call =
                self.call_on_runs(&self.scripts.commit, shard).arg(mode.word()).arg(UNKNOWN_LEASE_MS);
            for &member in &portion {
                push_settlement(&mut call, settlements[member], effects.get(&member));
            }
            let answer = array(self.link.call(shard, call).await?);
            let mut parts =
                answer.filter(|parts| parts.len() >= portion.len()).ok_or_else(|| odd_answer("commit"))?;
            self.carry_on(shard, Errand::all(parts.split_off(portion.len()))).await;
            verdicts.extend(portion.into_iter().zip(parts.iter().map(verdict)));
        }
        Ok(verdicts)
    }

    /// Ends a job from outside, where it was seen, and tells a run of it.
    pub(crate) async fn answer_at(
        &self,
        job: &JobId,
        delivery: &Delivery,
        place: &Place,
    ) -> Result<String, Error> {
        let keys = self.keys_of_place(job, place);
        let mut call = self.call_at((&self.scripts.complete_activity, &keys), job, place);
        self.push_world(&mut call);
        push_delivery(&mut call, delivery);
        match self.act(call, place).await?.word {
            word if word == "damaged" => Err(self.damaged_run(&delivery.run)),
            word => Ok(word),
        }
    }
}

fn verdict(answer: &Value) -> Verdict {
    if int(answer) == Some(1) { Verdict::Accepted } else { Verdict::LeaseLost }
}

fn weigh(change: &Change, effects: Option<&Given<'_, Effect>>) -> usize {
    match change {
        Change::Commit(commit) => weight(commit, effects.unwrap_or(&Given::Items(&[]))),
        Change::Deliver(delivery) => delivery.entry.bytes.len(),
        Change::Requeue { envelope, .. } => envelope.len(),
        _ => 0,
    }
}

fn push_settlement(call: &mut Call<'_>, settlement: &Settlement, effects: Option<&Given<'_, Effect>>) {
    let lease = &settlement.lease;
    call.push(letter(&lease.queue));
    call.push(lease.queue.name.as_str());
    call.push(match lease.queue.guarantee {
        Promise::AtLeastOnce => entry_id(lease.token),
        Promise::AtMostOnce => lock_token(lease),
    });
    call.push(lease.job.as_str());
    match &settlement.change {
        Change::Commit(commit) => {
            call.push("commit");
            push_commit(call, commit, effects.unwrap_or(&Given::Items(&[])));
        }
        Change::Deliver(delivery) => {
            call.push("deliver");
            push_delivery(call, delivery);
        }
        Change::Requeue { envelope, delay } => {
            call.push("requeue");
            call.push(&envelope[..]);
            call.push(if delay.is_zero() { String::new() } else { format!("+{}", ms(*delay)) });
            push_removal(call);
        }
        _ => {}
    }
}
