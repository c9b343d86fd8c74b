//! Starting a run.

use tidemill_core::store::runs::{ConflictPolicy, StartRunParams, StartRunResult};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Guarantee};

use super::effects::{effects_args, entry_args};
use super::instance::Instance;
use crate::chains::outbox::OutboxEntry;
use crate::connection::named_args::NamedArgs;
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
        let journal = self.stage_journal(shard, run).await?;
        let effects = self.stage_effects(shard, &run.effects).await?;
        let args = NamedArgs::new()
            .with("run", run.run.as_str())
            .with("instance", &Instance::new(run).to_json()[..])
            .with("task_fields", &run.first_task_fields)
            .with("journal", journal.to_args(entry_args))
            .with("effects", effects_args(&effects))
            .with("key", run.key.as_ref().map(|key| key.key.as_str()).filter(|key| !key.is_empty()))
            .with("conflict", run.key.as_ref().map(|key| policy_word(key.conflict)));
        let call = self.run_script_call(&self.scripts.start_run, shard, args);
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
