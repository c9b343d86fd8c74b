//! Rebuilding a run: reads its journal in pages and replays it.

use tidemill_core::retry::until_answered;
use tidemill_core::store::runs::{ReadJournalParams, StoredEntry};
use tidemill_core::workflow::{Entry, EntryContent, RunId};
use tidemill_core::{Error, Store};

use super::TaskHandler;
use super::postpone::PostponeReason;
use crate::blocked::Blocked;
use crate::program::Program;
use crate::replay::{Replayer, diagnose};

/// The maximum number of entries that one read returns.
const PAGE_ENTRIES: usize = 1_000;

/// The number of bytes after which a read stops, because server and worker hold a page in memory.
const PAGE_BYTES: usize = 4 << 20;

impl TaskHandler {
    /// A replayer at the beginning of the journal.
    pub(super) fn new_replayer(&self, program: &Program, run: &RunId, base: u64) -> Replayer {
        let replayer = Replayer::new(program, run.clone()).base(base).payload_limit(self.payload_limit);
        match self.journal_limit {
            Some(limit) => replayer.journal_limit(limit),
            None => replayer,
        }
    }

    /// A replayer at the run's last commit, with the unconsumed events up to a position. `None` if
    /// the run was removed and has no journal.
    pub(super) async fn rebuild(
        &self,
        program: &Program,
        run: &RunId,
        upto: u64,
        store: &dyn Store,
    ) -> Result<Option<Box<Replayer>>, PostponeReason> {
        let (mut pages, mut replayer, mut upto) = (JournalPages::new(store, run), None, upto);
        loop {
            let page = pages.next().await?;
            let Some((first, _)) = page.first() else { return Ok(replayer) };
            let (base, entries) = (first.saturating_sub(1), parse_entries(&page)?);
            if consumed_upto(&entries).is_some_and(|consumed| consumed > upto) {
                // The run has committed further than the caller knows. The discarded events are
                // needed after all, so start again without a bound.
                (pages, replayer, upto) = (JournalPages::new(store, run), None, u64::MAX);
                continue;
            }
            let replayer = replayer.get_or_insert_with(|| Box::new(self.new_replayer(program, run, base)));
            replayer.replay(entries)?;
            replayer.discard_after(upto);
        }
    }
}

/// The position up to which these entries' commits have consumed events, if there are any.
fn consumed_upto(entries: &[Entry]) -> Option<u64> {
    let commits = entries.iter().filter_map(|entry| match &entry.content {
        EntryContent::Commit(commit) => Some(commit.upto),
        EntryContent::Event(_) => None,
    });
    commits.max()
}

/// Adds the location in the code where the run is blocked, for the report.
pub(super) async fn locate(blocked: Blocked, program: &Program, run: &RunId, store: &dyn Store) -> Blocked {
    if !matches!(blocked, Blocked::ForeignAwait(_) | Blocked::Panicked { .. }) {
        return blocked;
    }
    let Ok((base, entries)) = read_whole(run, store).await else { return blocked };
    let (program, run, unlocated) = (program.clone(), run.clone(), blocked.clone());
    let found = tokio::task::spawn_blocking(move || diagnose(blocked, &program, &run, base, &entries)).await;
    found.unwrap_or(unlocated)
}

async fn read_whole(run: &RunId, store: &dyn Store) -> Result<(u64, Vec<Entry>), Error> {
    let page = read_all(store, run).await?;
    let base = page.first().map_or(0, |(position, _)| position.saturating_sub(1));
    let entries = parse_entries(&page).map_err(|blocked| Error::Corrupt(blocked.to_string()))?;
    Ok((base, entries))
}

/// Reads a journal page by page.
pub(crate) struct JournalPages<'a> {
    store: &'a dyn Store,
    run: &'a RunId,
    from: u64,
    done: bool,
}

impl<'a> JournalPages<'a> {
    pub(crate) fn new(store: &'a dyn Store, run: &'a RunId) -> Self {
        Self { store, run, from: 1, done: false }
    }

    /// Continues after the last page, where new entries may have been written.
    pub(crate) fn resume(&mut self) {
        self.done = false;
    }

    /// The next page; empty at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<(u64, StoredEntry)>, Error> {
        if self.done {
            return Ok(Vec::new());
        }
        let (run, from) = (self.run, self.from);
        let read = || {
            self.store.read_journal(ReadJournalParams { run, from, limit: PAGE_ENTRIES, bytes: PAGE_BYTES })
        };
        let page = until_answered(self.store.clock(), read).await?;
        let bytes: usize = page.iter().map(|(_, stored)| stored.bytes.len()).sum();
        self.done = page.len() < PAGE_ENTRIES && bytes < PAGE_BYTES;
        self.from = page.last().map_or(self.from, |(position, _)| position + 1);
        Ok(page)
    }
}

/// Reads a whole journal.
pub(crate) async fn read_all(store: &dyn Store, run: &RunId) -> Result<Vec<(u64, StoredEntry)>, Error> {
    let (mut pages, mut all) = (JournalPages::new(store, run), Vec::new());
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Parses entries. The error names the position of the first unreadable one.
pub(crate) fn parse_entries(page: &[(u64, StoredEntry)]) -> Result<Vec<Entry>, Blocked> {
    let read = |(position, stored): &(u64, StoredEntry)| {
        let damaged = |error| Blocked::Damaged { position: *position, message: format!("{error}") };
        Entry::read(&stored.bytes).map_err(damaged)
    };
    page.iter().map(read).collect()
}
