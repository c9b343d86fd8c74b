//! Runs: state, journals, tasks and timers. A run is in one shard, so every verb is one script
//! there.

mod deliver;
mod effects;
mod find_run;
mod fire_timers;
mod get_run;
mod instance;
mod list_runs;
mod prune_runs;
mod read_journal;
mod settle;
mod stage;
mod start_run;
mod terminate;

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::store::runs::{
    Delivered, Delivery, ListRunsParams, MAX_TASK_EVENT_BYTES, MAX_TASK_EVENTS, PruneRunsParams,
    REMOVED_EVENT_PARTS, ReadJournalParams, RunInfo, RunTimer, Runs, StartRunParams, StartRunResult,
    StoredEntry, TerminateParams,
};
use tidemill_core::store::{Page, Verdict};
use tidemill_core::workflow::{RunId, WorkflowName};

use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::script::Script;
use crate::store::RedisStore;
pub(crate) use effects::{commit_args, commit_bytes, delivery_args};
pub(crate) use settle::concerns_run;
pub(crate) use stage::ScriptItems;

#[async_trait]
impl Runs for RedisStore {
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.start_new_run(run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.deliver_events(deliveries).await
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.terminate_run(terminate).await
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.read_journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.get_run(run).await
    }

    async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        self.find_run(workflow, key).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.list_runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.prune_ended_runs(prune).await
    }
}

impl RedisStore {
    /// A call of a script about runs, which gets the channel and the context beside its own
    /// arguments.
    pub(crate) fn run_script_call<'a>(
        &self,
        script: &'a Script,
        shard: u16,
        args: NamedArgs,
    ) -> ScriptCall<'a> {
        let args = args.with("channel", self.keys.channel()).with("context", self.run_context());
        ScriptCall::named(script, &self.keys.shard_keys(shard), &args)
    }

    /// The context of runs, as `lua/lib/run.lua` reads it.
    pub(crate) fn run_context(&self) -> NamedArgs {
        let options = self.connections.options();
        NamedArgs::new()
            .with("max_events", MAX_TASK_EVENTS)
            .with("max_bytes", MAX_TASK_EVENT_BYTES)
            .with("letters", RunTimer::ALL.map(RunTimer::code).concat())
            .with("group", &options.default_group)
            .with("groups", self.group_names())
    }

    /// The groups of queues that have their own.
    pub(crate) fn group_names(&self) -> NamedArgs {
        let groups = &self.connections.options().groups;
        groups.iter().fold(NamedArgs::new(), |names, (queue, group)| names.with(queue.as_str(), group))
    }
}

/// The event for a removed activity: the JSON before and after its number.
pub(crate) fn removed_event() -> [&'static str; 2] {
    [REMOVED_EVENT_PARTS.0, REMOVED_EVENT_PARTS.1]
}
