//! One run of a test world: its journal, and its machine while that is kept.

use tidemill_core::Timestamp;
use tidemill_core::workflow::{
    Commit, Entry, EntryContent, Journal, OpenChildren, Parent, ParentClose, PositionedEvent, RunEnd,
    RunEvent, RunId, RunStarted,
};

use super::mock::Mocks;
use crate::halt::Halt;
use crate::machine::{Advance, Machine};
use crate::program::Program;

pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) program: Program,
    pub(super) entries: Vec<Entry>,
    /// Events the machine has not been given.
    news: Vec<PositionedEvent>,
    machine: Option<Machine>,
    /// The position of the last event that a commit consumed.
    consumed: u64,
    /// Journals from before it continued as new.
    pub(super) earlier: Vec<Journal>,
    pub(super) parent: Option<Parent>,
    pub(super) children: Vec<(RunId, ParentClose)>,
    pub(super) end: Option<Close>,
}

/// How a run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Close {
    By(RunEnd),
    Terminated,
}

impl Run {
    pub(super) fn new(id: RunId, program: Program, parent: Option<Parent>) -> Self {
        let (entries, news, earlier, children) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id, program, entries, news, machine: None, consumed: 0, earlier, parent, children, end: None }
    }

    pub(super) fn append(&mut self, at: i64, event: RunEvent) {
        self.entries.push(Entry::event(Timestamp(at), event.clone()));
        self.news.push(PositionedEvent { position: self.length(), at: Timestamp(at), event });
    }

    fn length(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The children that have lost a `select!` in the last task although they were to outlive the run.
    pub(super) fn take_given_up(&mut self) -> Vec<u64> {
        let children = OpenChildren::of(&self.entries);
        let outlives =
            |seq: &u64| children.get(*seq).is_some_and(|child| child.parent_close == ParentClose::Abandon);
        let losers = self.machine.as_mut().map(Machine::take_losers).unwrap_or_default();
        losers.into_iter().filter(outlives).collect()
    }

    /// Whether it has events that no task has seen.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Loses what is in memory.
    pub(super) fn crash(&mut self) {
        self.machine = None;
    }

    /// Runs a task up to its commit, which is not made yet.
    pub(super) fn task(&mut self, mocks: &mut Mocks) -> Result<Commit, Halt> {
        let news = std::mem::take(&mut self.news);
        let mut machine = match self.machine.take() {
            Some(machine) => machine,
            None => self.rebuild()?,
        };
        let mut advance = machine.advance(news)?;
        while let Advance::Local(tasks) = advance {
            for task in tasks {
                let (result, attempts) = mocks.run_local(&task);
                machine.finish_local(task.seq, result, attempts);
            }
            advance = machine.advance([])?;
        }
        self.machine = Some(machine);
        match advance {
            Advance::Commit(commit) => Ok(commit),
            Advance::Local(_) => unreachable!("the loop ends with a commit"),
        }
    }

    fn rebuild(&self) -> Result<Machine, Halt> {
        let mut machine = Machine::new(&self.program, self.id.clone());
        machine.replay(self.entries.iter().cloned())?;
        Ok(machine)
    }

    /// Makes the commit.
    pub(super) fn commit(&mut self, at: i64, commit: Commit) {
        self.consumed = commit.upto;
        self.entries.push(Entry::commit(Timestamp(at), commit));
    }

    /// Begins again. What came since the last task is not lost: it goes into the new journal.
    pub(super) fn continue_as_new(&mut self, at: i64, started: RunStarted) {
        let entries = std::mem::take(&mut self.entries);
        let late: Vec<_> = entries.iter().skip(self.consumed as usize).filter_map(messages).collect();
        self.earlier.push(Journal { run: self.id.clone(), base: 0, entries });
        (self.machine, self.news, self.consumed) = (None, Vec::new(), 0);
        self.append(at, RunEvent::Started(Box::new(started)));
        for event in late {
            self.append(at, event);
        }
    }

    pub(super) fn journal(&self) -> Journal {
        Journal { run: self.id.clone(), base: 0, entries: self.entries.clone() }
    }

    pub(super) fn machine(&mut self) -> Result<&mut Machine, Halt> {
        let machine = match self.machine.take() {
            Some(machine) => machine,
            None => self.rebuild()?,
        };
        Ok(self.machine.insert(machine))
    }

    /// The first entry of the journal.
    pub(super) fn started(&self) -> Option<&RunStarted> {
        match &self.entries.first()?.what {
            EntryContent::Event(RunEvent::Started(started)) => Some(started),
            _ => None,
        }
    }
}

/// What is said to a run and not to one of its journals.
fn messages(entry: &Entry) -> Option<RunEvent> {
    match &entry.what {
        EntryContent::Event(
            event @ (RunEvent::Signal(_) | RunEvent::Update { .. } | RunEvent::CancelRequested { .. }),
        ) => Some(event.clone()),
        _ => None,
    }
}
