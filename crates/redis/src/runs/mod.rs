//! Runs: state, journals, tasks and timers. A run is in one shard, so every verb is one script
//! there.

mod commit;
mod deliver;
mod effects;
mod fire_timers;
mod get_run;
mod instance;
mod list_runs;
mod prune_runs;
mod read_journal;
mod stage;
mod start_run;
mod terminate;

pub(crate) use commit::concerns_run;
use tidemill_core::store::runs::{MAX_TASK_EVENT_BYTES, MAX_TASK_EVENTS, REMOVED_EVENT_PARTS, RunTimer};

use crate::connection::ScriptCall;
use crate::connection::script::Script;
use crate::store::RedisStore;

impl RedisStore {
    /// A call of a script about runs. More arguments follow.
    pub(crate) fn run_script_call<'a>(&self, script: &'a Script, shard: u16) -> ScriptCall<'a> {
        let mut call = ScriptCall::new(script, &self.keys.shard_keys(shard)).arg(self.keys.channel());
        self.push_run_context(&mut call);
        call
    }

    /// Adds the run context, as `lua/lib/run.lua` reads it.
    pub(crate) fn push_run_context(&self, call: &mut ScriptCall<'_>) {
        let options = self.connections.options();
        call.push(MAX_TASK_EVENTS);
        call.push(MAX_TASK_EVENT_BYTES);
        call.push(RunTimer::ALL.map(RunTimer::code).concat());
        call.push(&options.default_group);
        call.push(options.groups.len());
        for (queue, group) in &options.groups {
            call.push(queue.as_str());
            call.push(group);
        }
    }
}

/// Adds the event for a removed activity.
pub(crate) fn push_removal(call: &mut ScriptCall<'_>) {
    call.push(REMOVED_EVENT_PARTS.0);
    call.push(REMOVED_EVENT_PARTS.1);
}
