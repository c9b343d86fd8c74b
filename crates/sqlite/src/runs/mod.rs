//! Workflows: runs, their journals and their alarms. Everything happens under the one write lock,
//! so a commit, concurrent events and the next task are always serialized.

mod alarms;
mod close;
mod commit;
mod deliver;
mod effects;
mod get_run;
mod journal;
mod list_runs;
mod prune_runs;
mod read_journal;
mod run_row;
mod start_run;
mod task;
mod terminate;

pub(crate) use alarms::{fire_due_alarms, next_alarm};
pub(crate) use commit::commit;
pub(crate) use deliver::{deliver, deliver_one, notify_removed};
pub(crate) use get_run::get_run;
pub(crate) use list_runs::list_runs;
pub(crate) use prune_runs::prune_runs;
pub(crate) use read_journal::read_journal;
pub(crate) use start_run::start_run;
pub(crate) use task::PendingTasks;
pub(crate) use terminate::terminate;
