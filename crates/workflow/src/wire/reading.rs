//! Reading journals from a store.

use tidemill_core::retry::until_answered;
use tidemill_core::store::runs::{ReadJournalParams, StoredEntry};
use tidemill_core::workflow::{Entry, RunId};
use tidemill_core::{Error, Store};

use crate::halt::Halt;

/// How many entries one trip reads at most.
const PAGE: usize = 1_000;

/// After how many bytes a trip reads no more: a server and a worker have to hold them all at once.
const PAGE_BYTES: usize = 4 << 20;

/// A journal, page by page.
pub(crate) struct Pages<'a> {
    store: &'a dyn Store,
    run: &'a RunId,
    from: u64,
    done: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(store: &'a dyn Store, run: &'a RunId) -> Self {
        Self { store, run, from: 1, done: false }
    }

    /// Begins after the last page again: there may be more by now.
    pub(crate) fn resume(&mut self) {
        self.done = false;
    }

    /// The next page; empty at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<(u64, StoredEntry)>, Error> {
        if self.done {
            return Ok(Vec::new());
        }
        let (run, from) = (self.run, self.from);
        let read =
            || self.store.read_journal(ReadJournalParams { run, from, limit: PAGE, bytes: PAGE_BYTES });
        let page = until_answered(self.store.clock(), read).await?;
        let bytes: usize = page.iter().map(|(_, written)| written.entry.len()).sum();
        self.done = page.len() < PAGE && bytes < PAGE_BYTES;
        self.from = page.last().map_or(self.from, |(position, _)| position + 1);
        Ok(page)
    }
}

/// A whole journal, as the store has it.
pub(crate) async fn read_all(store: &dyn Store, run: &RunId) -> Result<Vec<(u64, StoredEntry)>, Error> {
    let (mut pages, mut all) = (Pages::new(store, run), Vec::new());
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Entries that can be read; the first that cannot says where it is.
pub(crate) fn entries(page: &[(u64, StoredEntry)]) -> Result<Vec<Entry>, Halt> {
    let read = |(position, written): &(u64, StoredEntry)| {
        let damaged = |error| Halt::Damaged { position: *position, message: format!("{error}") };
        Entry::read(&written.entry).map_err(damaged)
    };
    page.iter().map(read).collect()
}
