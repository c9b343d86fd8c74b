//! One run of a simulation: its journal, and its replayer while it is cached.

use tidemill_core::Timestamp;
use tidemill_core::workflow::{
    Commit, Entry, EntryContent, Journal, OpenChildren, Parent, ParentClose, PositionedEvent, RunEnd,
    RunEvent, RunId, RunStarted,
};

use super::mock::Mocks;
use crate::blocked::Blocked;
use crate::program::Program;
use crate::replay::{Advance, Replayer};

pub(super) struct TestRun {
    pub(super) id: RunId,
    pub(super) program: Program,
    pub(super) entries: Vec<Entry>,
    /// Events that the replayer has not received.
    new_events: Vec<PositionedEvent>,
    replayer: Option<Replayer>,
    /// The position of the last consumed event.
    consumed: u64,
    /// The journals from before it continued as new.
    pub(super) earlier: Vec<Journal>,
    pub(super) parent: Option<Parent>,
    pub(super) children: Vec<(RunId, ParentClose)>,
    pub(super) end: Option<RunClose>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunClose {
    By(RunEnd),
    Terminated,
}

impl TestRun {
    pub(super) fn new(id: RunId, program: Program, parent: Option<Parent>) -> Self {
        let (entries, new_events, earlier, children) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            id,
            program,
            entries,
            new_events,
            replayer: None,
            consumed: 0,
            earlier,
            parent,
            children,
            end: None,
        }
    }

    pub(super) fn append(&mut self, at: i64, event: RunEvent) {
        self.entries.push(Entry::event(Timestamp(at), event.clone()));
        self.new_events.push(PositionedEvent { position: self.length(), at: Timestamp(at), event });
    }

    fn length(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Takes the children with `Abandon` that a `select!` dropped as unselected in the last task.
    pub(super) fn take_cancelled_children(&mut self) -> Vec<u64> {
        let children = OpenChildren::from_entries(&self.entries);
        let is_abandoned =
            |seq: &u64| children.get(*seq).is_some_and(|child| child.parent_close == ParentClose::Abandon);
        let unselected = self.replayer.as_mut().map(Replayer::take_unselected_children).unwrap_or_default();
        unselected.into_iter().filter(is_abandoned).collect()
    }

    /// Whether there are events that no task has received.
    pub(super) fn has_new_events(&self) -> bool {
        !self.new_events.is_empty()
    }

    /// Drops the replayer.
    pub(super) fn crash(&mut self) {
        self.replayer = None;
    }

    /// Runs a task up to its commit, which is not written yet.
    pub(super) fn run_task(&mut self, mocks: &mut Mocks) -> Result<Commit, Blocked> {
        let new_events = std::mem::take(&mut self.new_events);
        let mut replayer = match self.replayer.take() {
            Some(replayer) => replayer,
            None => self.rebuild()?,
        };
        let mut advance = replayer.advance(new_events)?;
        while let Advance::Local(tasks) = advance {
            for task in tasks {
                let (result, attempts) = mocks.run_local(&task);
                replayer.finish_local(task.seq, result, attempts);
            }
            advance = replayer.advance([])?;
        }
        self.replayer = Some(replayer);
        match advance {
            Advance::Commit(commit) => Ok(commit),
            Advance::Local(_) => unreachable!("the loop ends with a commit"),
        }
    }

    fn rebuild(&self) -> Result<Replayer, Blocked> {
        let mut replayer = Replayer::new(&self.program, self.id.clone());
        replayer.replay(self.entries.iter().cloned())?;
        Ok(replayer)
    }

    /// Writes the commit.
    pub(super) fn commit(&mut self, at: i64, commit: Commit) {
        self.consumed = commit.upto;
        self.entries.push(Entry::commit(Timestamp(at), commit));
    }

    /// Restarts the run. Messages that arrived since the last task are carried over into the new
    /// journal.
    pub(super) fn continue_as_new(&mut self, at: i64, started: RunStarted) {
        let entries = std::mem::take(&mut self.entries);
        let messages: Vec<_> = entries.iter().skip(self.consumed as usize).filter_map(as_message).collect();
        self.earlier.push(Journal { run: self.id.clone(), base: 0, entries });
        (self.replayer, self.new_events, self.consumed) = (None, Vec::new(), 0);
        self.append(at, RunEvent::Started(Box::new(started)));
        for event in messages {
            self.append(at, event);
        }
    }

    pub(super) fn journal(&self) -> Journal {
        Journal { run: self.id.clone(), base: 0, entries: self.entries.clone() }
    }

    pub(super) fn replayer(&mut self) -> Result<&mut Replayer, Blocked> {
        let replayer = match self.replayer.take() {
            Some(replayer) => replayer,
            None => self.rebuild()?,
        };
        Ok(self.replayer.insert(replayer))
    }

    /// The first event of the journal.
    pub(super) fn started(&self) -> Option<&RunStarted> {
        match &self.entries.first()?.content {
            EntryContent::Event(RunEvent::Started(started)) => Some(started),
            _ => None,
        }
    }
}

/// The event if it is a message, which outlives the journal.
fn as_message(entry: &Entry) -> Option<RunEvent> {
    match &entry.content {
        EntryContent::Event(
            event @ (RunEvent::Signal(_) | RunEvent::Update { .. } | RunEvent::CancelRequested { .. }),
        ) => Some(event.clone()),
        _ => None,
    }
}
