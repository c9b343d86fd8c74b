//! Settlement changes as arguments of scripts.

use futures_util::future::try_join_all;
use tidemill_core::settle::Change;
use tidemill_core::store::runs::Effect;
use tidemill_core::{Envelope, Error, Guarantee, JobId, Queue};

use super::linked_job::LinkedJob;
use crate::connection::named_args::NamedArgs;
use crate::inspect::record;
use crate::jobs::{due_argument, ms};
use crate::runs::{ScriptItems, commit_args, delivery_args};
use crate::store::RedisStore;

/// The changes of one script, as `lua/lib/chain.lua` and `lua/jobs/settle.lua` read them.
pub(crate) struct SettleChanges<'a> {
    store: &'a RedisStore,
    shard: u16,
    all: Vec<PreparedChange<'a>>,
}

struct PreparedChange<'a> {
    job: &'a JobId,
    change: &'a Change,
    /// The next job of a continued chain.
    next_job: Option<LinkedJob<'a>>,
    /// The effects of a commit, which are staged if there are very many.
    effects: ScriptItems<'a, Effect>,
}

impl<'a> SettleChanges<'a> {
    pub(crate) async fn prepare(
        store: &'a RedisStore,
        shard: u16,
        changes: impl Iterator<Item = (&'a JobId, &'a Change)>,
    ) -> Result<Self, Error> {
        let prepare = |(job, change): (&'a JobId, &'a Change)| async move {
            let (mut next_job, mut effects) = (None, ScriptItems::Items(&[][..]));
            match change {
                Change::Continue(step) => {
                    let states = store.blocker_states_or_removed(job, &step.job.links.after).await?;
                    next_job = Some(store.prepare_job(&step.job, &states));
                }
                Change::Commit(commit) => effects = store.stage_effects(shard, &commit.effects).await?,
                _ => {}
            }
            Ok::<_, Error>(PreparedChange { job, change, next_job, effects })
        };
        Ok(Self { store, shard, all: try_join_all(changes.map(prepare)).await? })
    }

    /// The arguments of change number `index`. Adds its keys to those of the script.
    pub(crate) fn to_args(&self, index: usize, keys: &mut Vec<String>) -> NamedArgs {
        let PreparedChange { job, change, next_job, effects } = &self.all[index];
        let args = NamedArgs::new().with("job", job.as_str());
        match change {
            Change::Finish(None) => args.with("op", "finish"),
            Change::Finish(Some(end)) => args
                .with("op", "finish")
                .with("record", &record::write(end)[..])
                .with("keep", ms(end.keep))
                .with("record_key", add_key(keys, self.store.keys.record(self.shard, job))),
            Change::Bury(letter) => args.with("op", "bury").with("letter", &letter.bytes),
            Change::Requeue { envelope, delay } => {
                let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
                let due = if delay.is_zero() { String::new() } else { format!("+{}", ms(*delay)) };
                let args = args.with("op", "requeue").with("tracked", tracked);
                args.with("envelope", envelope).with("due", due)
            }
            Change::Continue(step) => {
                let queue = self.next_queue_args(&step.queue, keys);
                let args = args.with("op", "continue").with("next_queue", queue);
                next_job.iter().fold(args, |args, next_job| self.with_next_job(args, next_job, keys))
            }
            Change::Commit(commit) => args.with("op", "commit").with("commit", commit_args(commit, effects)),
            Change::Deliver(delivery) => args.with("op", "deliver").with("delivery", delivery_args(delivery)),
        }
    }

    fn next_queue_args(&self, queue: &Queue, keys: &mut Vec<String>) -> NamedArgs {
        let of_store = &self.store.keys;
        NamedArgs::new()
            .with("name", queue.name.as_str())
            .with("target", add_key(keys, of_store.target(self.shard, queue)))
            .with("scheduled", add_key(keys, of_store.scheduled(self.shard, queue)))
            .with("blocked", add_key(keys, of_store.blocked(self.shard, queue)))
    }

    fn with_next_job(&self, args: NamedArgs, next: &LinkedJob<'_>, keys: &mut Vec<String>) -> NamedArgs {
        let args = args.with("envelope", &next.envelope).with("due", due_argument(next.job.due));
        if next.wait_id.is_empty() {
            return args;
        }
        args.with("next_job", next.job.id.as_str())
            .with("wait_id", &next.wait_id)
            .with("waits", add_key(keys, self.store.keys.waits(self.shard, &next.wait_id)))
            .with("blockers", next.blocker_args())
    }
}

/// Adds a key of a script; returns its number, by which arguments name it.
pub(super) fn add_key(keys: &mut Vec<String>, key: String) -> usize {
    keys.push(key);
    keys.len()
}

/// Checks that a chain does not continue on an at-most-once queue.
pub(crate) fn check_next_queue(change: &Change) -> Result<(), Error> {
    match change {
        Change::Continue(step) if step.queue.guarantee == Guarantee::AtMostOnce => {
            let queue = &step.queue.name;
            Err(Error::Invalid(format!("a chain cannot continue on the at-most-once queue `{queue}`")))
        }
        _ => Ok(()),
    }
}
