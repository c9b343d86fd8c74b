//! How a claim's end is written for a script: which keys it needs, and what it says.

use futures_util::future::try_join_all;
use tidemill_core::settle::Change;
use tidemill_core::{Envelope, Error, Guarantee, JobId, Queue};

use super::linked_job::Draft;
use crate::connection::Call;
use crate::inspect::record;
use crate::jobs::{due, ms};
use crate::store::RedisStore;

/// Changes that one script is to make. Those by which a chain goes on have the next job's draft.
pub(crate) struct Changes<'a> {
    store: &'a RedisStore,
    shard: u16,
    all: Vec<(&'a JobId, &'a Change, Option<Draft<'a>>)>,
}

impl<'a> Changes<'a> {
    pub(crate) async fn of(
        store: &'a RedisStore,
        shard: u16,
        changes: impl Iterator<Item = (&'a JobId, &'a Change)>,
    ) -> Result<Self, Error> {
        let draft = |(job, change): (&'a JobId, &'a Change)| async move {
            let Change::Continue(step) = change else { return Ok::<_, Error>((job, change, None)) };
            let standings = store.standings_or_removed(job, &step.job.links.after).await?;
            Ok((job, change, Some(store.draft(&step.job, &standings))))
        };
        let all = try_join_all(changes.map(draft)).await?;
        Ok(Self { store, shard, all })
    }

    /// The keys of change number `index`.
    pub(crate) fn push_keys(&self, keys: &mut Vec<String>, index: usize) {
        let (job, _, draft) = &self.all[index];
        keys.push(self.store.keys.record(self.shard, job));
        if let Some(draft) = draft.as_ref().filter(|draft| !draft.mark.is_empty()) {
            keys.push(self.store.keys.waits(self.shard, &draft.mark));
        }
    }

    /// The arguments of change number `index`, as `read_change` in `lua/chain.lua` reads them.
    pub(crate) fn push_args(&self, call: &mut Call<'_>, index: usize) {
        let (job, change, draft) = &self.all[index];
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
            // By these a run goes on, and that is another script's.
            Change::Commit(_) | Change::Deliver(_) => {}
            Change::Continue(_) => draft.iter().for_each(|draft| push_step(call, draft)),
        }
    }
}

fn push_step(call: &mut Call<'_>, draft: &Draft<'_>) {
    let op = if draft.mark.is_empty() { "continue" } else { "block" };
    push_op(call, ("1", op, &draft.envelope, &due(draft.job.due)));
    if !draft.mark.is_empty() {
        call.push(draft.job.id.as_str());
        call.push(&draft.mark);
        draft.push_after(call);
    }
}

/// The queue on which a chain goes on, if it does.
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

fn push_op(call: &mut Call<'_>, (tracked, op, data, due): (&str, &str, &[u8], &str)) {
    call.push(tracked);
    call.push(op);
    call.push(data);
    call.push(due);
}
