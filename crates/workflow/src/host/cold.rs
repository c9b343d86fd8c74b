//! Rebuilding a run from its journal.

use tidemill_core::workflow::{Entry, RunId};
use tidemill_core::{Error, Store};

use super::Host;
use super::setback::Setback;
use crate::halt::Halt;
use crate::machine::{Machine, diagnose};
use crate::program::Program;
use crate::wire::{Pages, entries, read_all};

impl Host {
    /// A run at the beginning of its journal.
    pub(super) fn fresh(&self, program: &Program, run: &RunId, base: u64) -> Machine {
        let machine = Machine::new(program, run.clone()).base(base);
        match self.limit {
            Some(limit) => machine.limit(limit),
            None => machine,
        }
    }

    /// A run where its journal ends; none if it has no journal: it was removed.
    pub(super) async fn rebuild(
        &self,
        program: &Program,
        run: &RunId,
        store: &dyn Store,
    ) -> Result<Option<Box<Machine>>, Setback> {
        let (mut pages, mut machine) = (Pages::new(store, run), None);
        loop {
            let page = pages.next().await?;
            let Some((first, _)) = page.first() else { return Ok(machine) };
            let base = first.saturating_sub(1);
            let machine = machine.get_or_insert_with(|| Box::new(self.fresh(program, run, base)));
            machine.replay(entries(&page)?)?;
        }
    }
}

/// Finds out where in the code a run halted, for whoever reads the report.
pub(super) async fn place(halt: Halt, program: &Program, run: &RunId, store: &dyn Store) -> Halt {
    if !matches!(halt, Halt::Foreign(_) | Halt::Panicked { .. }) {
        return halt;
    }
    let Ok((base, entries)) = whole(run, store).await else { return halt };
    let (program, run, known) = (program.clone(), run.clone(), halt.clone());
    let found = tokio::task::spawn_blocking(move || diagnose(halt, &program, &run, base, &entries)).await;
    found.unwrap_or(known)
}

async fn whole(run: &RunId, store: &dyn Store) -> Result<(u64, Vec<Entry>), Error> {
    let page = read_all(store, run).await?;
    let base = page.first().map_or(0, |(position, _)| position.saturating_sub(1));
    let entries = entries(&page).map_err(|halt| Error::Corrupt(halt.to_string()))?;
    Ok((base, entries))
}
