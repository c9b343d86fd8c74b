//! Ending a run from outside, without asking its code.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{CloseRun, Effect, TerminateParams};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;

use super::close::close;
use super::effects;
use super::instance::find;
use super::task::Wanted;
use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::jobs::{Place, find as find_job, remove_row};
use crate::store::SqliteStore;

pub(crate) async fn terminate(store: &SqliteStore, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
    let end = End {
        run: terminate.run.clone(),
        cursor: terminate.cursor,
        effects: terminate.effects.to_vec(),
        close: terminate.close.clone(),
    };
    // It ends something: not refused when the disk is full.
    store.write(Cost::change(2 + end.effects.len()), move |tx| end.take_place(tx)).await
}

/// What is wanted, owned: it travels to the writer.
struct End {
    run: RunId,
    cursor: u64,
    effects: Vec<Effect>,
    close: CloseRun,
}

impl End {
    fn take_place(&self, tx: &mut Tx<'_>) -> Result<Verdict, Failure> {
        let open = find(tx, &self.run)?.filter(|run| !run.status.is_closed() && run.cursor == self.cursor);
        let Some(run) = open else { return Ok(Verdict::LeaseLost) };
        let mut wanted = Wanted::default();
        remove_task(tx, &self.run)?;
        effects::apply(tx, run.number, &self.effects)?;
        close(tx, (&self.run, &run), &self.close, &mut wanted)?;
        wanted.make(tx)?;
        Ok(Verdict::Accepted)
    }
}

/// Removes a run's task, wherever it is.
fn remove_task(tx: &mut Tx<'_>, run: &RunId) -> Result<(), Failure> {
    let Some(task) = find_job(tx, &run.task())? else { return Ok(()) };
    task.vacate(tx)?;
    remove_row(tx, task.seq)?;
    if let Place::Running { .. } = task.place {
        tx.announcements.add(Wake::LeaseLost(task.job));
    }
    Ok(())
}
