//! Rebuilding a run from its journal.

use tidemill_core::workflow::{Entry, EntryContent, RunId};
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
        let machine = Machine::new(program, run.clone()).base(base).payload_limit(self.payload_limit);
        match self.limit {
            Some(limit) => machine.limit(limit),
            None => machine,
        }
    }

    /// A run where its last commit left it, with the events up to a position that it has not consumed; none if it has no
    /// journal: it was removed.
    pub(super) async fn rebuild(
        &self,
        program: &Program,
        run: &RunId,
        upto: u64,
        store: &dyn Store,
    ) -> Result<Option<Box<Machine>>, Setback> {
        let (mut pages, mut machine, mut upto) = (Pages::new(store, run), None, upto);
        loop {
            let page = pages.next().await?;
            let Some((first, _)) = page.first() else { return Ok(machine) };
            let (base, entries) = (first.saturating_sub(1), entries(&page)?);
            if consumed(&entries).is_some_and(|consumed| consumed > upto) {
                // The run has come further than whoever asks for it knows, and what was left is wanted after all.
                (pages, machine, upto) = (Pages::new(store, run), None, u64::MAX);
                continue;
            }
            let machine = machine.get_or_insert_with(|| Box::new(self.fresh(program, run, base)));
            machine.replay(entries)?;
            machine.leave(upto);
        }
    }
}

/// Up to where commits have consumed the journal, if there are any among these entries.
fn consumed(entries: &[Entry]) -> Option<u64> {
    let commits = entries.iter().filter_map(|entry| match &entry.what {
        EntryContent::Commit(commit) => Some(commit.upto),
        EntryContent::Event(_) => None,
    });
    commits.max()
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
