//! What a run waits for and what it is responsible for, as far as its journal tells without its code.

use std::collections::BTreeMap;

use super::command::{Command, NotifyParent, ParentClose, StartChild};
use super::event::RunEvent;
use super::journal::{Entry, EntryContent};
use super::name::RunId;
use crate::clock::Timestamp;

/// Something a run has asked for and has no answer to. Signals and updates are not asked for: what else a run waits
/// for only its code knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCommand {
    /// What it asked for.
    pub command: Command,
    /// Since when.
    pub since: Timestamp,
}

/// The commands of a journal that wait for an answer, oldest first. A run that has ended waits for nothing.
pub fn open_commands<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<OpenCommand> {
    let mut open = OpenCommands::default();
    entries.into_iter().for_each(|entry| open.apply(entry));
    open.0.into_values().collect()
}

/// The commands that wait for an answer, as far as a journal has been read: for one that need not be held as a whole.
#[derive(Debug, Default)]
pub struct OpenCommands(BTreeMap<u64, OpenCommand>);

impl OpenCommands {
    /// The next entry of the journal.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.content {
            EntryContent::Event(event) => answer(&mut self.0, event),
            EntryContent::Commit(commit) if commit.end.is_some() => self.0.clear(),
            EntryContent::Commit(commit) => {
                commit.commands.iter().for_each(|command| ask(&mut self.0, command, entry.at));
            }
        }
    }

    /// Those that are open, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &OpenCommand> {
        self.0.values()
    }
}

/// A child that its parent has not heard the end of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenChild {
    /// Its identity.
    pub run: RunId,
    /// What becomes of it when the parent ends first.
    pub parent_close: ParentClose,
}

/// The children of a run that it has not heard the end of, by the numbers of the commands that started them: those it
/// does not wait for any more too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenChildren(BTreeMap<u64, OpenChild>);

impl OpenChildren {
    /// The children that a journal tells of.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut children = Self::default();
        entries.into_iter().for_each(|entry| children.apply(entry));
        children
    }

    /// The next entry of the journal.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.content {
            EntryContent::Event(event) => self.apply_event(event),
            EntryContent::Commit(commit) => self.add_commands(&commit.commands),
        }
    }

    /// The run has asked for these.
    pub fn add_commands(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::StartChild(child) = command {
                let StartChild { seq, run, parent_close, .. } = &**child;
                self.0.insert(*seq, OpenChild { run: run.clone(), parent_close: *parent_close });
            }
        }
    }

    /// The run has heard of this.
    pub fn apply_event(&mut self, event: &RunEvent) {
        if let RunEvent::ChildDone { seq, .. } = event {
            self.0.remove(seq);
        }
    }

    /// The child with this number.
    pub fn get(&self, seq: u64) -> Option<&OpenChild> {
        self.0.get(&seq)
    }

    /// Every child with its number, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenChild)> {
        self.0.iter().map(|(seq, child)| (*seq, child))
    }
}

fn answer(open: &mut BTreeMap<u64, OpenCommand>, event: &RunEvent) {
    match event {
        RunEvent::ActivityDone { seq, .. }
        | RunEvent::TimerFired { seq }
        | RunEvent::ChildDone { seq, .. }
        | RunEvent::SignalSent { seq, .. } => {
            open.remove(seq);
        }
        RunEvent::ChildStarted { seq, .. } => {
            let asked = open.get(seq).map(|open| &open.command);
            if matches!(asked, Some(Command::StartChild(child)) if child.notify_parent == NotifyParent::Start)
            {
                open.remove(seq);
            }
        }
        RunEvent::Started(_)
        | RunEvent::Signal(_)
        | RunEvent::CancelRequested { .. }
        | RunEvent::Update { .. } => {}
    }
}

fn ask(open: &mut BTreeMap<u64, OpenCommand>, command: &Command, since: Timestamp) {
    match command {
        Command::ScheduleActivity(_)
        | Command::StartTimer { .. }
        | Command::StartChild(_)
        | Command::SignalRun { .. } => {
            let seq = command.seq().unwrap_or_default();
            open.insert(seq, OpenCommand { command: command.clone(), since });
        }
        Command::CancelActivity { seq } | Command::CancelTimer { seq } | Command::CancelChild { seq } => {
            open.remove(seq);
        }
        Command::SideEffect { .. }
        | Command::LocalActivity { .. }
        | Command::TooLarge { .. }
        | Command::Patch { .. }
        | Command::SearchAttributes { .. }
        | Command::UpdateDone { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Commit, Json, RunEnd};
    use super::*;

    fn commit(at: i64, commands: Vec<Command>, end: Option<RunEnd>) -> Entry {
        Entry::commit(Timestamp(at), Commit { upto: 1, commands, end })
    }

    #[test]
    fn what_was_neither_answered_nor_cancelled_is_open() {
        let timer = |seq| Command::StartTimer { seq, due_ms: 9 };
        let mut entries = vec![
            commit(2, vec![timer(1), timer(2), timer(3), timer(4)], None),
            Entry::event(Timestamp(3), RunEvent::TimerFired { seq: 1 }),
            commit(4, vec![Command::CancelTimer { seq: 2 }, timer(5)], None),
        ];
        let open: Vec<_> = open_commands(&entries).iter().map(|o| (o.command.seq(), o.since.0)).collect();
        assert_eq!(open, [(Some(3), 2), (Some(4), 2), (Some(5), 4)]);
        entries.push(commit(5, Vec::new(), Some(RunEnd::Completed(Json::null()))));
        assert!(open_commands(&entries).is_empty());
    }
}
