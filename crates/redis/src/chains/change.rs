//! Settlement changes as arguments of scripts.

use futures_util::future::try_join_all;
use tidemill_core::settle::Change;
use tidemill_core::{Envelope, Error, Guarantee, JobId, Queue};

use super::linked_job::LinkedJob;
use crate::connection::ScriptCall;
use crate::inspect::record;
use crate::jobs::{due_argument, ms};
use crate::store::RedisStore;

/// The changes of one script. Continued chains have their next job.
pub(crate) struct SettleChanges<'a> {
    store: &'a RedisStore,
    shard: u16,
    all: Vec<(&'a JobId, &'a Change, Option<LinkedJob<'a>>)>,
}

impl<'a> SettleChanges<'a> {
    pub(crate) async fn prepare(
        store: &'a RedisStore,
        shard: u16,
        changes: impl Iterator<Item = (&'a JobId, &'a Change)>,
    ) -> Result<Self, Error> {
        let linked_job = |(job, change): (&'a JobId, &'a Change)| async move {
            let Change::Continue(step) = change else { return Ok::<_, Error>((job, change, None)) };
            let states = store.blocker_states_or_removed(job, &step.job.links.after).await?;
            Ok((job, change, Some(store.prepare_job(&step.job, &states))))
        };
        let all = try_join_all(changes.map(linked_job)).await?;
        Ok(Self { store, shard, all })
    }

    /// The keys of change number `index`.
    pub(crate) fn push_keys(&self, keys: &mut Vec<String>, index: usize) {
        let (job, _, linked_job) = &self.all[index];
        keys.push(self.store.keys.record(self.shard, job));
        if let Some(linked_job) = linked_job.as_ref().filter(|linked_job| !linked_job.wait_id.is_empty()) {
            keys.push(self.store.keys.waits(self.shard, &linked_job.wait_id));
        }
    }

    /// The arguments of change number `index`, for `read_change` in `lua/lib/chain.lua`.
    pub(crate) fn push_args(&self, call: &mut ScriptCall<'_>, index: usize) {
        let (job, change, linked_job) = &self.all[index];
        call.push(job.as_str());
        match change {
            Change::Finish(None) => push_op(call, ("1", "finish", &[], "")),
            Change::Finish(Some(end)) => {
                push_op(call, ("1", "finish", &record::write(end), &ms(end.keep).to_string()));
            }
            Change::Bury(letter) => push_op(call, ("1", "bury", &letter.bytes, "")),
            Change::Requeue { envelope, delay } => {
                let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
                let delay = if delay.is_zero() { String::new() } else { format!("+{}", ms(*delay)) };
                push_op(call, (if tracked { "1" } else { "0" }, "requeue", envelope, &delay));
            }
            // Another script settles these.
            Change::Commit(_) | Change::Deliver(_) => {}
            Change::Continue(_) => linked_job.iter().for_each(|linked_job| push_next_job(call, linked_job)),
        }
    }
}

fn push_next_job(call: &mut ScriptCall<'_>, linked_job: &LinkedJob<'_>) {
    let op = if linked_job.wait_id.is_empty() { "continue" } else { "block" };
    push_op(call, ("1", op, &linked_job.envelope, &due_argument(linked_job.job.due)));
    if !linked_job.wait_id.is_empty() {
        call.push(linked_job.job.id.as_str());
        call.push(&linked_job.wait_id);
        linked_job.push_blockers(call);
    }
}

/// The queue on which a chain continues, if it does.
pub(crate) fn next_queue(change: &Change) -> Result<Option<&Queue>, Error> {
    match change {
        Change::Continue(step) if step.queue.guarantee == Guarantee::AtMostOnce => {
            let queue = &step.queue.name;
            Err(Error::Invalid(format!("a chain cannot continue on the at-most-once queue `{queue}`")))
        }
        Change::Continue(step) => Ok(Some(&step.queue)),
        _ => Ok(None),
    }
}

fn push_op(call: &mut ScriptCall<'_>, (tracked, op, data, due): (&str, &str, &[u8], &str)) {
    call.push(tracked);
    call.push(op);
    call.push(data);
    call.push(due);
}
