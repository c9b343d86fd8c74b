//! Settling claims that concern runs: all of a shard in one call, whatever their queues.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use redis::Value;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{Delivery, Effect};
use tidemill_core::{Error, Guarantee as Promise, JobId};

use super::effects::{commit_bytes, push_commit, push_delivery};
use super::push_removal;
use super::stage::ScriptItems;
use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::keys::kind_letter;
use crate::connection::reply::{array, entry_id, int};
use crate::error::unexpected_reply;
use crate::jobs::locate::JobLocation;
use crate::jobs::{DEFAULT_LEASE_MS, SettleMode, lock_token, ms, script_batches};
use crate::store::RedisStore;

/// Whether a settlement may concern a run: requeueing a cancelled activity removes it.
pub(crate) fn concerns_run(settlement: &Settlement) -> bool {
    match settlement.change {
        Change::Commit(_) | Change::Deliver(_) => true,
        Change::Requeue { .. } => settlement.lease.job.is_activity(),
        _ => false,
    }
}

impl RedisStore {
    pub(crate) async fn settle_for_runs(
        &self,
        settlements: &[&Settlement],
        mode: SettleMode,
    ) -> Result<Vec<Verdict>, Error> {
        let mut shards = vec![Vec::new(); usize::from(self.keys.shards())];
        for (position, settlement) in settlements.iter().enumerate() {
            shards[usize::from(settlement.lease.shard)].push(position);
        }
        let there = (0..).zip(shards).filter(|(_, members)| !members.is_empty());
        let settle = |(shard, members)| self.settle_runs_in(shard, (settlements, members), mode);
        let mut verdicts = vec![Verdict::LeaseLost; settlements.len()];
        for (position, verdict) in try_join_all(there.map(settle)).await?.into_iter().flatten() {
            verdicts[position] = verdict;
        }
        Ok(verdicts)
    }

    async fn settle_runs_in(
        &self,
        shard: u16,
        (settlements, members): (&[&Settlement], Vec<usize>),
        mode: SettleMode,
    ) -> Result<Vec<(usize, Verdict)>, Error> {
        let mut verdicts = Vec::with_capacity(members.len());
        let mut effects = HashMap::with_capacity(members.len());
        for &member in &members {
            if let Change::Commit(commit) = &settlements[member].change {
                effects.insert(member, self.stage_effects(shard, &commit.effects).await?);
            }
        }
        let weigh = |member: usize| change_bytes(&settlements[member].change, effects.get(&member));
        for batch in script_batches(members, weigh) {
            let mut call =
                self.run_script_call(&self.scripts.commit, shard).arg(mode.as_str()).arg(DEFAULT_LEASE_MS);
            for &member in &batch {
                push_settlement(&mut call, settlements[member], effects.get(&member));
            }
            let reply = array(self.connections.call(shard, call).await?);
            let mut parts =
                reply.filter(|parts| parts.len() >= batch.len()).ok_or_else(|| unexpected_reply("commit"))?;
            self.process_outbox(shard, OutboxEntry::parse_all(parts.split_off(batch.len()))).await;
            verdicts.extend(batch.into_iter().zip(parts.iter().map(verdict)));
        }
        Ok(verdicts)
    }

    /// Completes a job at its location from outside, and delivers the event to its run.
    pub(crate) async fn complete_activity_at(
        &self,
        job: &JobId,
        delivery: &Delivery,
        location: &JobLocation,
    ) -> Result<String, Error> {
        let keys = self.keys_at(job, location);
        let mut call = self.call_at((&self.scripts.complete_activity, &keys), job, location);
        self.push_run_context(&mut call);
        push_delivery(&mut call, delivery);
        match self.run_action(call, location).await?.status {
            word if word == "damaged" => Err(self.damaged_run(&delivery.run)),
            word => Ok(word),
        }
    }
}

fn verdict(reply: &Value) -> Verdict {
    if int(reply) == Some(1) { Verdict::Accepted } else { Verdict::LeaseLost }
}

fn change_bytes(change: &Change, effects: Option<&ScriptItems<'_, Effect>>) -> usize {
    match change {
        Change::Commit(commit) => commit_bytes(commit, effects.unwrap_or(&ScriptItems::Items(&[]))),
        Change::Deliver(delivery) => delivery.entry.bytes.len(),
        Change::Requeue { envelope, .. } => envelope.len(),
        _ => 0,
    }
}

fn push_settlement(
    call: &mut ScriptCall<'_>,
    settlement: &Settlement,
    effects: Option<&ScriptItems<'_, Effect>>,
) {
    let lease = &settlement.lease;
    call.push(kind_letter(&lease.queue));
    call.push(lease.queue.name.as_str());
    call.push(match lease.queue.guarantee {
        Promise::AtLeastOnce => entry_id(lease.token),
        Promise::AtMostOnce => lock_token(lease),
    });
    call.push(lease.job.as_str());
    match &settlement.change {
        Change::Commit(commit) => {
            call.push("commit");
            push_commit(call, commit, effects.unwrap_or(&ScriptItems::Items(&[])));
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
