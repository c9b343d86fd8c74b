//! `terminate`: ends a run from outside, without its code.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{CloseRun, Effect, TerminateParams};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;

use super::close::close;
use super::effects;
use super::run_row::find;
use super::task::PendingTasks;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::jobs::{JobRowState, delete_row, find as find_job};
use crate::store::SqliteStore;

pub(crate) async fn terminate(store: &SqliteStore, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
    let termination = Termination {
        run: terminate.run.clone(),
        cursor: terminate.cursor,
        effects: terminate.effects.to_vec(),
        close: terminate.close.clone(),
    };
    // It ends a run, so it is not rejected when the disk is full.
    store.write(Cost::change(2 + termination.effects.len()), move |tx| termination.apply(tx)).await
}

/// The parameters, owned, because they are sent to the writer thread.
struct Termination {
    run: RunId,
    cursor: u64,
    effects: Vec<Effect>,
    close: CloseRun,
}

impl Termination {
    fn apply(&self, tx: &mut Tx<'_>) -> Result<Verdict, RequestError> {
        let open = find(tx, &self.run)?.filter(|run| !run.status.is_closed() && run.cursor == self.cursor);
        let Some(run) = open else { return Ok(Verdict::LeaseLost) };
        let mut tasks = PendingTasks::default();
        remove_task(tx, &self.run)?;
        effects::apply(tx, run.number, &self.effects)?;
        close(tx, &self.run, &run, &self.close, &mut tasks)?;
        tasks.create(tx)?;
        Ok(Verdict::Accepted)
    }
}

/// Removes a run's task, whatever its state.
fn remove_task(tx: &mut Tx<'_>, run: &RunId) -> Result<(), RequestError> {
    let Some(task) = find_job(tx, &run.task())? else { return Ok(()) };
    task.detach(tx)?;
    delete_row(tx, task.seq)?;
    if let JobRowState::Running { .. } = task.state {
        tx.wakes.add(Wake::LeaseLost(task.job));
    }
    Ok(())
}
