//! Writing down what a task did.

use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{AfterCommit, CommitParams, ContinueAsNew};

use super::close::close;
use super::instance::find;
use super::task::Wanted;
use super::{alarms, deliver, effects, journal};
use crate::call::Tx;
use crate::error::Failure;

/// Commits what the task of a run did. The task's job is gone already; the next is made when the caller says so.
pub(crate) fn commit(
    tx: &mut Tx<'_>,
    commit: &CommitParams,
    wanted: &mut Wanted,
) -> Result<Verdict, Failure> {
    let open = find(tx, &commit.run)?.filter(|run| !run.status.is_closed());
    let Some(mut run) = open else { return Ok(Verdict::LeaseLost) };
    // Whatever becomes of the commit, a run that has news has a task.
    wanted.add(run.number);
    if run.cursor != commit.cursor {
        return Ok(Verdict::LeaseLost);
    }
    run.last_commit = Some(commit.id);
    effects::apply(tx, run.number, &commit.effects)?;
    match &commit.then {
        AfterCommit::Running => run.append_commit(tx, commit)?,
        AfterCommit::ContinueAsNew(ContinueAsNew { first, id_retention: seen_for }) => {
            alarms::drop_all(tx, run.number)?;
            deliver::forget(tx, run.number, *seen_for)?;
            journal::restart(tx, &mut run, first, commit.upto)?;
        }
        AfterCommit::Close(end) => {
            run.append_commit(tx, commit)?;
            close(tx, (&commit.run, &run), end, wanted)?;
        }
    }
    Ok(Verdict::Accepted)
}
