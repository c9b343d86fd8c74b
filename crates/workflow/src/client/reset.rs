//! Beginning again where a run was at one of its commits, as a new run.

use tidemill_core::Error;
use tidemill_core::store::runs::{
    ConflictPolicy, EntryKind, RunInfo, RunKey, StartRunResult as Begun, StoredEntry,
};
use tidemill_core::workflow::{
    Command, Entry, EntryContent, OpenChildren, RunEvent, RunId, RunStarted, open_commands,
};

use super::error::RunError;
use super::handle::RunHandle;
use super::start::{begin, leaves_terminated};
use super::terminate::terminate;
use crate::wire::{Birth, Effects, entries, kind_of, read_all, route_of};

impl<O> RunHandle<O> {
    /// Rewinds the run to the commit at `position` of its journal, as a new run: what was open there is asked for anew,
    /// and signals and updates that came later are delivered again. A run that has not ended is terminated first. The
    /// new run has the key of the old one, and no parent.
    pub async fn reset(&self, position: u64) -> Result<Self, RunError> {
        let (info, store) = (self.info().await?, self.store());
        let (mut past, mut terminated) = (self.past(position).await?, None);
        if !info.status.is_closed() {
            terminate(store, &self.run, &format!("reset to entry {position}")).await?;
            terminated = Some(&self.run);
            // What was said to it until then is in its journal only now.
            past = self.past(position).await?;
        }
        let new = past.begin_again(&info, store.clock().now())?;
        let begun = begin(&self.client, &new).await;
        match begun.map_err(|error| leaves_terminated(error, terminated))? {
            Begun::Created => Ok(Self::new(&self.client, new.run, true)),
            Begun::Existing(run) | Begun::Rejected(run) => Err(RunError::Exists(run)),
        }
    }

    async fn past(&self, position: u64) -> Result<Past, RunError> {
        let all = read_all(self.store(), &self.run).await?;
        let base = all.first().map_or(0, |(first, _)| first.saturating_sub(1));
        let until = usize::try_from(position.saturating_sub(base)).unwrap_or(usize::MAX).min(all.len());
        let kept = entries(&all[..until]).map_err(|halt| Error::Corrupt(halt.to_string()))?;
        let refuse =
            |why: &str| Err(Error::Invalid(format!("entry {position} of run `{}` {why}", self.run)).into());
        let is_there = position > base && until as u64 == position - base;
        match kept.last().map(|entry| &entry.what) {
            Some(EntryContent::Commit(commit)) if is_there && commit.end.is_none() => {}
            Some(EntryContent::Commit(_)) if is_there => {
                return refuse("is the commit that ended it: choose an earlier one");
            }
            _ => return refuse("is no commit"),
        }
        let late = all[until..].iter().filter_map(|(_, written)| Entry::read(&written.entry).ok());
        Ok(Past { base, kept, late: late.filter(is_message).collect() })
    }
}

/// What a run was at one of its commits.
struct Past {
    base: u64,
    /// Up to that commit.
    kept: Vec<Entry>,
    /// What was said to it later.
    late: Vec<Entry>,
}

/// Whether it is delivered again. A request to cancel is not: whoever resets a run wants it to go on.
fn is_message(entry: &Entry) -> bool {
    matches!(&entry.what, EntryContent::Event(RunEvent::Signal(_) | RunEvent::Update { .. }))
}

impl Past {
    fn begin_again(
        mut self,
        info: &RunInfo,
        now: tidemill_core::Timestamp,
    ) -> Result<tidemill_core::store::runs::StartRunParams, Error> {
        let run = match &info.key {
            Some(key) => RunId::keyed(&info.workflow, key),
            None => RunId::generate(),
        };
        self.rebase();
        self.rename_children(&info.run, &run);
        let started = self.adopt(&info.run)?;
        let mut effects = Effects::new(&run, &info.queue, now);
        let children = OpenChildren::of(&self.kept);
        for open in open_commands(&self.kept) {
            effects.add(&open.command, &children);
        }
        let (effects, cursor) = (effects.finish(), self.cursor());
        let key = info.key.clone().map(|key| RunKey { key, conflict: ConflictPolicy::StartAfterClose });
        let (route, attributes) = (route_of(&info.queue), info.attributes.clone());
        let birth = Birth { route, key, attributes, ..Birth::new(run, started) };
        let journal = self.kept.iter().chain(&self.late).map(written).collect();
        Ok(tidemill_core::store::runs::StartRunParams { journal, cursor, effects, ..birth.new_run(now) })
    }

    /// Positions of the new journal begin at 1.
    fn rebase(&mut self) {
        for entry in &mut self.kept {
            if let EntryContent::Commit(commit) = &mut entry.what {
                commit.upto = commit.upto.saturating_sub(self.base);
            }
        }
    }

    /// Children that are started anew are others than the first ones.
    fn rename_children(&mut self, old: &RunId, new: &RunId) {
        let open: Vec<_> =
            open_commands(&self.kept).into_iter().filter_map(|open| open.command.seq()).collect();
        let commits = self.kept.iter_mut().filter_map(|entry| match &mut entry.what {
            EntryContent::Commit(commit) => Some(commit),
            EntryContent::Event(_) => None,
        });
        for command in commits.flat_map(|commit| &mut commit.commands) {
            if let Command::StartChild(child) = command
                && child.run == old.child(child.seq)
                && open.contains(&child.seq)
            {
                child.run = new.child(child.seq);
            }
        }
    }

    /// The first event, as the new run's: it has the luck of the old one, so that its code draws the same numbers, and
    /// nobody is told how it ends.
    fn adopt(&mut self, old: &RunId) -> Result<RunStarted, Error> {
        match self.kept.first_mut().map(|entry| &mut entry.what) {
            Some(EntryContent::Event(RunEvent::Started(started))) => {
                started.parent = None;
                started.luck.get_or_insert_with(|| old.clone());
                Ok((**started).clone())
            }
            _ => Err(Error::Corrupt(format!("the journal of run `{old}` does not begin with `started`"))),
        }
    }

    fn cursor(&self) -> u64 {
        match self.kept.last().map(|entry| &entry.what) {
            Some(EntryContent::Commit(commit)) => commit.upto,
            _ => 0,
        }
    }
}

fn written(entry: &Entry) -> StoredEntry {
    let kind = match &entry.what {
        EntryContent::Commit(_) => EntryKind::Commit,
        EntryContent::Event(event) => kind_of(event).0,
    };
    StoredEntry { kind, entry: entry.write() }
}
