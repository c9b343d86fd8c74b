//! Starting a run.

use tidemill_core::store::runs::{ConflictPolicy, StartRunParams, StartRunResult};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Guarantee};

use super::effects::{kind_word, push_effects};
use super::instance::Instance;
use super::stage::ScriptItems;
use crate::chains::outbox::OutboxEntry;
use crate::connection::reply::{array, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn start_new_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        if run.queue.guarantee == Guarantee::AtMostOnce {
            let queue = &run.queue.name;
            return Err(Error::Invalid(format!(
                "the tasks of a run cannot be on the at-most-once queue `{queue}`"
            )));
        }
        let shard = self.keys.shard_of_run(&run.run);
        let mut call = self.run_script_call(&self.scripts.start_run, shard);
        call.push(run.run.as_str());
        call.push(Instance::new(run).to_json());
        call.push(&run.first_task_fields[..]);
        match self.stage_journal(shard, run).await? {
            ScriptItems::Items(journal) => {
                call.push(journal.len());
                for written in journal {
                    call.push(kind_word(written.kind));
                    call.push(&written.bytes[..]);
                }
            }
            ScriptItems::Staged { staging_id, count } => {
                call.push("staged");
                call.push(staging_id);
                call.push(count);
            }
        }
        call.push(run.key.as_ref().map_or("", |key| key.key.as_str()));
        call.push(run.key.as_ref().map_or("", |key| policy_word(key.conflict)));
        push_effects(&mut call, &self.stage_effects(shard, &run.effects).await?);
        let written = self.connections.write(shard, call).await?;
        let confirmed = written.confirmed(&format!("run {} was started", run.run));
        let mut reply = array(written.reply).unwrap_or_default();
        if reply.first().cloned().and_then(text).as_deref() == Some("created") {
            self.process_outbox(shard, OutboxEntry::parse_all(reply.split_off(1))).await;
        }
        let mut reply = reply.into_iter().filter_map(text);
        let (word, other) = (reply.next().unwrap_or_default(), reply.next());
        let other = || RunId::new(other.as_deref().unwrap_or_default());
        match word.as_str() {
            "created" => confirmed.map(|()| StartRunResult::Created),
            "existing" => Ok(StartRunResult::Existing(other()?)),
            "rejected" => Ok(StartRunResult::Rejected(other()?)),
            "lost" => Err(Error::Unavailable {
                message: format!("what was staged for run `{}` is gone", run.run),
                source: None,
            }),
            _ => Err(unexpected_reply("start_run")),
        }
    }
}

fn policy_word(conflict: ConflictPolicy) -> &'static str {
    match conflict {
        ConflictPolicy::UseExisting => "use_existing",
        ConflictPolicy::Reject => "reject",
        ConflictPolicy::StartAfterClose => "start_after_close",
    }
}
