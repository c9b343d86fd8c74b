//! Workflows: runs, their journals and their alarms. Everything happens under the one write lock,
//! so a commit, concurrent events and the next task are always serialized.

mod alarms;
mod close;
mod commit;
mod deliver;
mod effects;
mod find_run;
mod get_run;
mod journal;
mod list_runs;
mod prune_runs;
mod read_journal;
mod run_row;
mod start_run;
mod task;
mod terminate;

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::store::runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, Runs, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};
use tidemill_core::store::{Page, Verdict};
use tidemill_core::workflow::{RunId, WorkflowName};

use crate::store::SqliteStore;
pub(crate) use alarms::{fire_due_alarms, next_alarm};
pub(crate) use commit::commit;
pub(crate) use deliver::{deliver, deliver_one, notify_removed};
pub(crate) use prune_runs::prune_runs;
pub(crate) use task::PendingTasks;

#[async_trait]
impl Runs for SqliteStore {
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        start_run::start_run(self, run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        deliver::deliver(self, deliveries).await
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        terminate::terminate(self, terminate).await
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        read_journal::read_journal(self, read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        get_run::get_run(self, run).await
    }

    async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error> {
        find_run::find_run(self, workflow, key).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        list_runs::list_runs(self, list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        prune_runs::prune_runs(self, prune).await
    }
}
