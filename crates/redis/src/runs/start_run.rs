//! Starting a run.

use tidemill_core::store::runs::{ConflictPolicy, StartRunParams, StartRunResult};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Guarantee};

use super::effects::{kind, push_effects};
use super::instance::Instance;
use super::stage::Given;
use crate::chains::outbox::Errand;
use crate::connection::reply::{array, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn begin_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        if run.queue.guarantee == Guarantee::AtMostOnce {
            let queue = &run.queue.name;
            return Err(Error::Invalid(format!(
                "the tasks of a run cannot be on the at-most-once queue `{queue}`"
            )));
        }
        let shard = self.keys.shard_of_run(&run.run);
        let mut call = self.call_on_runs(&self.scripts.start_run, shard);
        call.push(run.run.as_str());
        call.push(Instance::of(run).write());
        call.push(&run.first_task_fields[..]);
        match self.stage_journal(shard, run).await? {
            Given::Items(journal) => {
                call.push(journal.len());
                for written in journal {
                    call.push(kind(written.kind));
                    call.push(&written.bytes[..]);
                }
            }
            Given::Staged { mark, count } => {
                call.push("staged");
                call.push(mark);
                call.push(count);
            }
        }
        call.push(run.key.as_ref().map_or("", |key| key.key.as_str()));
        call.push(run.key.as_ref().map_or("", |key| word(key.conflict)));
        push_effects(&mut call, &self.stage_effects(shard, &run.effects).await?);
        let written = self.link.write(shard, call).await?;
        let confirmed = written.confirmed(&format!("run {} was started", run.run));
        let mut answer = array(written.answer).unwrap_or_default();
        if answer.first().cloned().and_then(text).as_deref() == Some("created") {
            self.carry_on(shard, Errand::all(answer.split_off(1))).await;
        }
        let mut answer = answer.into_iter().filter_map(text);
        let (word, other) = (answer.next().unwrap_or_default(), answer.next());
        let other = || RunId::new(other.as_deref().unwrap_or_default());
        match word.as_str() {
            "created" => confirmed.map(|()| StartRunResult::Created),
            "existing" => Ok(StartRunResult::Existing(other()?)),
            "rejected" => Ok(StartRunResult::Rejected(other()?)),
            "lost" => Err(Error::Unavailable {
                message: format!("what was staged for run `{}` is gone", run.run),
                source: None,
            }),
            _ => Err(odd_answer("start_run")),
        }
    }
}

fn word(conflict: ConflictPolicy) -> &'static str {
    match conflict {
        ConflictPolicy::UseExisting => "use_existing",
        ConflictPolicy::Reject => "reject",
        ConflictPolicy::StartAfterClose => "start_after_close",
    }
}
