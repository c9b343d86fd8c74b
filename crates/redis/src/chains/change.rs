//! How a claim's end is written for a script: which keys it needs, and what it says.

use tidemill_core::settle::{Change, Step};
use tidemill_core::{Delivery, Envelope, Error, JobId, Queue};

use super::register::{how, new_mark};
use crate::inspect::record;
use crate::jobs::{due, ms};
use crate::link::Call;
use crate::store::RedisStore;

/// Changes that one script is to make, with a mark for each that makes a job wait for chains.
pub(crate) struct Changes<'a> {
    store: &'a RedisStore,
    shard: u16,
    all: Vec<(&'a JobId, &'a Change, String)>,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(
        store: &'a RedisStore,
        shard: u16,
        changes: impl Iterator<Item = (&'a JobId, &'a Change)>,
    ) -> Self {
        let marked = |(job, change)| {
            let mark = if blockers(change).is_empty() { String::new() } else { new_mark() };
            (job, change, mark)
        };
        Self { store, shard, all: changes.map(marked).collect() }
    }

    /// The keys of change number `index`.
    pub(crate) fn push_keys(&self, keys: &mut Vec<String>, index: usize) {
        let (job, _, mark) = &self.all[index];
        keys.push(self.store.keys.record(self.shard, job));
        if !mark.is_empty() {
            keys.push(self.store.keys.waits(self.shard, mark));
        }
    }

    /// The arguments of change number `index`: those that `read_change` in `lua/chain.lua` reads.
    pub(crate) fn push_args(&self, call: &mut Call<'_>, index: usize) {
        let (job, change, mark) = &self.all[index];
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
            Change::Continue(step) => self.push_step(call, step, mark),
        }
    }

    fn push_step(&self, call: &mut Call<'_>, step: &Step, mark: &str) {
        let job = &step.job;
        let op = if mark.is_empty() { "continue" } else { "block" };
        push_op(call, ("1", op, &job.envelope, &due(job.due)));
        if mark.is_empty() {
            return;
        }
        call.push(job.id.as_str());
        call.push(mark);
        call.push(job.links.after.len());
        for chain in &job.links.after {
            let chain = chain.chain();
            call.push(how(self.store, self.shard, &chain));
            call.push(chain.as_str());
        }
    }
}

/// The queue on which a chain goes on, if it does.
pub(crate) fn next_queue(change: &Change) -> Result<Option<&Queue>, Error> {
    match change {
        Change::Continue(step) if step.queue.delivery == Delivery::AtMostOnce => {
            let queue = &step.queue.name;
            Err(Error::Invalid(format!("a chain cannot continue on the at-most-once queue `{queue}`")))
        }
        Change::Continue(step) => Ok(Some(&step.queue)),
        _ => Ok(None),
    }
}

fn blockers(change: &Change) -> &[JobId] {
    match change {
        Change::Continue(step) => &step.job.links.after,
        _ => &[],
    }
}

fn push_op(call: &mut Call<'_>, (tracked, op, data, due): (&str, &str, &[u8], &str)) {
    call.push(tracked);
    call.push(op);
    call.push(data);
    call.push(due);
}
