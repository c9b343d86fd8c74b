//! `reset`: starts a new run from a commit of another run's journal.

use tidemill_core::Error;
use tidemill_core::store::runs::{ConflictPolicy, EntryKind, RunInfo, RunKey, StartRunResult, StoredEntry};
use tidemill_core::workflow::{
    Command, Entry, EntryContent, OpenChildren, RunEvent, RunId, RunStarted, open_commands,
};

use super::error::RunError;
use super::handle::RunHandle;
use super::start::{start_run, with_terminated_run};
use super::terminate::terminate;
use crate::task::{Effects, StartRequest, entry_kind, parse_entries, queue_route, read_all};

impl<O> RunHandle<O> {
    /// Starts a new run from the commit at `position` of this run's journal. Issues the open
    /// commands of that point again, and delivers later signals and updates again. Terminates this
    /// run first if it is open. The new run has the same key, and no parent.
    ///
    /// # Errors
    /// [`RunError::NotFound`], or [`Error::Invalid`] if there is no commit at `position`; otherwise the
    /// store's error. The error says if this run was terminated already.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call may have terminated this run without starting the new one.
    pub async fn reset(&self, position: u64) -> Result<Self, RunError> {
        let (info, store) = (self.info().await?, self.store());
        let (mut past, mut terminated) = (self.reset_point(position).await?, None);
        if !info.status.is_closed() {
            terminate(store, &self.run, &format!("reset to entry {position}")).await?;
            terminated = Some(&self.run);
            // Messages that arrived before the termination are in the journal only now.
            past = self.reset_point(position).await?;
        }
        let new = past.into_params(&info, store.clock().now())?;
        let result = start_run(&self.client, &new).await;
        match result.map_err(|error| with_terminated_run(error, terminated))? {
            StartRunResult::Created => Ok(Self::new(&self.client, new.run, true)),
            StartRunResult::Existing(run) | StartRunResult::Rejected(run) => Err(RunError::Exists(run)),
        }
    }

    async fn reset_point(&self, position: u64) -> Result<ResetPoint, RunError> {
        let all = read_all(self.store(), &self.run).await?;
        let base = all.first().map_or(0, |(first, _)| first.saturating_sub(1));
        let until = usize::try_from(position.saturating_sub(base)).unwrap_or(usize::MAX).min(all.len());
        let kept = parse_entries(&all[..until]).map_err(|blocked| Error::Corrupt(blocked.to_string()))?;
        let reject =
            |why: &str| Err(Error::Invalid(format!("entry {position} of run `{}` {why}", self.run)).into());
        let is_there = position > base && until as u64 == position - base;
        match kept.last().map(|entry| &entry.content) {
            Some(EntryContent::Commit(commit)) if is_there && commit.end.is_none() => {}
            Some(EntryContent::Commit(_)) if is_there => {
                return reject("is the commit that ended it: choose an earlier one");
            }
            _ => return reject("is no commit"),
        }
        let later = all[until..].iter().filter_map(|(_, stored)| Entry::read(&stored.bytes).ok());
        Ok(ResetPoint { base, kept, later_messages: later.filter(is_message).collect() })
    }
}

/// A run at one of its commits.
struct ResetPoint {
    base: u64,
    /// The entries up to that commit.
    kept: Vec<Entry>,
    /// The messages that arrived later.
    later_messages: Vec<Entry>,
}

/// Whether an entry is delivered again. A cancel request is not: a reset run is meant to continue.
fn is_message(entry: &Entry) -> bool {
    matches!(&entry.content, EntryContent::Event(RunEvent::Signal(_) | RunEvent::Update { .. }))
}

impl ResetPoint {
    fn into_params(
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
        let started = self.detach_from_parent(&info.run)?;
        let mut effects = Effects::new(&run, &info.queue, now);
        let children = OpenChildren::from_entries(&self.kept);
        for open in open_commands(&self.kept) {
            effects.add(&open.command, &children);
        }
        let (effects, cursor) = (effects.into_vec(), self.cursor());
        let key = info.key.clone().map(|key| RunKey { key, conflict: ConflictPolicy::StartAfterClose });
        let (route, attributes) = (queue_route(&info.queue), info.attributes.clone());
        let request = StartRequest { route, key, attributes, ..StartRequest::new(run, started) };
        let journal = self.kept.iter().chain(&self.later_messages).map(stored_entry).collect();
        Ok(tidemill_core::store::runs::StartRunParams {
            journal,
            cursor,
            effects,
            ..request.into_params(now)
        })
    }

    /// Makes positions of the new journal begin at 1.
    fn rebase(&mut self) {
        for entry in &mut self.kept {
            if let EntryContent::Commit(commit) = &mut entry.content {
                commit.upto = commit.upto.saturating_sub(self.base);
            }
        }
    }

    /// Gives new ids to the children that the new run starts again.
    fn rename_children(&mut self, old: &RunId, new: &RunId) {
        let open: Vec<_> =
            open_commands(&self.kept).into_iter().filter_map(|open| open.command.seq()).collect();
        let commits = self.kept.iter_mut().filter_map(|entry| match &mut entry.content {
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

    /// Prepares the first event for the new run and returns it. The run keeps the old random seed,
    /// so that its code draws the same numbers, and has no parent to notify.
    fn detach_from_parent(&mut self, old: &RunId) -> Result<RunStarted, Error> {
        match self.kept.first_mut().map(|entry| &mut entry.content) {
            Some(EntryContent::Event(RunEvent::Started(started))) => {
                started.parent = None;
                started.seed.get_or_insert_with(|| old.clone());
                Ok((**started).clone())
            }
            _ => Err(Error::Corrupt(format!("the journal of run `{old}` does not begin with `started`"))),
        }
    }

    fn cursor(&self) -> u64 {
        match self.kept.last().map(|entry| &entry.content) {
            Some(EntryContent::Commit(commit)) => commit.upto,
            _ => 0,
        }
    }
}

fn stored_entry(entry: &Entry) -> StoredEntry {
    let kind = match &entry.content {
        EntryContent::Commit(_) => EntryKind::Commit,
        EntryContent::Event(event) => entry_kind(event).0,
    };
    StoredEntry { kind, bytes: entry.write() }
}
