//! Commits of tasks.

use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{AfterCommit, CommitParams, ContinueAsNew};

use super::close::close;
use super::run_row::find;
use super::task::PendingTasks;
use super::{alarms, deliver, effects, journal};
use crate::connection::Tx;
use crate::error::RequestError;

/// Applies the commit of a run's task. The task's job is deleted already. The next task is created
/// from `tasks`.
pub(crate) fn commit(
    tx: &mut Tx<'_>,
    commit: &CommitParams,
    tasks: &mut PendingTasks,
) -> Result<Verdict, RequestError> {
    let open = find(tx, &commit.run)?.filter(|run| !run.status.is_closed());
    let Some(mut run) = open else { return Ok(Verdict::LeaseLost) };
    // Whether the commit is accepted or not, a run with unconsumed events needs a task.
    tasks.add(run.number);
    if run.cursor != commit.cursor {
        return Ok(Verdict::LeaseLost);
    }
    run.last_commit = Some(commit.id);
    effects::apply(tx, run.number, &commit.effects)?;
    match &commit.then {
        AfterCommit::Running => run.append_commit(tx, commit)?,
        AfterCommit::ContinueAsNew(ContinueAsNew { first, id_retention: seen_for }) => {
            alarms::drop_all(tx, run.number)?;
            deliver::delete_old_deliveries(tx, run.number, *seen_for)?;
            journal::restart(tx, &mut run, first, commit.upto)?;
        }
        AfterCommit::Close(end) => {
            run.append_commit(tx, commit)?;
            close(tx, &commit.run, &run, end, tasks)?;
        }
    }
    Ok(Verdict::Accepted)
}
