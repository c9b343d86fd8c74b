//! Runs: their state, journals, tasks and alarms. A run and all it has lie in one shard, so every verb is one script there.

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

pub(crate) use commit::is_of_runs;
use tidemill_core::store::runs::{MAX_TASK_EVENT_BYTES, MAX_TASK_EVENTS, REMOVED_EVENT_PARTS, RunTimer};

use crate::connection::Call;
use crate::connection::script::Script;
use crate::store::RedisStore;

impl RedisStore {
    /// A call of a script about runs. More arguments follow.
    pub(crate) fn call_on_runs<'a>(&self, script: &'a Script, shard: u16) -> Call<'a> {
        let mut call = Call::new(script, &self.keys.home(shard)).arg(self.keys.channel());
        self.push_world(&mut call);
        call
    }

    /// The arguments of a world, as `lua/run.lua` reads them.
    pub(crate) fn push_world(&self, call: &mut Call<'_>) {
        let options = self.link.options();
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

/// What a run is told of an activity that was taken away.
pub(crate) fn push_removal(call: &mut Call<'_>) {
    call.push(REMOVED_EVENT_PARTS.0);
    call.push(REMOVED_EVENT_PARTS.1);
}
