//! Open commands, children and awaited messages of a run, derived from its journal without its code.

use std::collections::BTreeMap;

use super::command::{Command, NotifyParent, ParentClose, StartChild};
use super::event::RunEvent;
use super::journal::{AwaitedMessage, Entry, EntryContent};
use super::name::RunId;
use crate::clock::Timestamp;

/// A command without a result. Signals and updates that the code waits for are not commands: see
/// [`awaited_messages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCommand {
    /// The command.
    pub command: Command,
    /// When it was issued.
    pub since: Timestamp,
}

/// The open commands of a journal, oldest first. A run that has ended has none.
pub fn open_commands<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<OpenCommand> {
    let mut open = OpenCommands::default();
    entries.into_iter().for_each(|entry| open.apply(entry));
    open.0.into_values().collect()
}

/// The open commands of a journal that is read entry by entry, for one that is not held in memory.
#[derive(Debug, Default)]
pub struct OpenCommands(BTreeMap<u64, OpenCommand>);

impl OpenCommands {
    /// Applies the next entry of the journal.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.content {
            EntryContent::Event(event) => close_answered(&mut self.0, event),
            EntryContent::Commit(commit) if commit.end.is_some() => self.0.clear(),
            EntryContent::Commit(commit) => {
                commit.commands.iter().for_each(|command| add_command(&mut self.0, command, entry.at));
            }
        }
    }

    /// The open commands, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &OpenCommand> {
        self.0.values()
    }
}

/// The messages that the code waited for after the last commit of a journal, and since when. A run
/// that has ended waits for none.
pub fn awaited_messages<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
) -> BTreeMap<AwaitedMessage, Timestamp> {
    let commits = entries.into_iter().filter_map(|entry| match &entry.content {
        EntryContent::Commit(commit) => Some((entry.at, commit)),
        EntryContent::Event(_) => None,
    });
    commits.fold(BTreeMap::new(), |before, (at, commit)| {
        let since = |message: &AwaitedMessage| before.get(message).copied().unwrap_or(at);
        commit.awaits.iter().map(|message| (message.clone(), since(message))).collect()
    })
}

/// A child whose end its parent has not received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenChild {
    /// The id of the child.
    pub run: RunId,
    /// What happens to it when the parent ends first.
    pub parent_close: ParentClose,
}

/// The children of a run whose end it has not received, by the numbers of the commands that started
/// them. Includes children that it no longer waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenChildren(BTreeMap<u64, OpenChild>);

impl OpenChildren {
    /// The open children of a journal.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut children = Self::default();
        entries.into_iter().for_each(|entry| children.apply(entry));
        children
    }

    /// Applies the next entry of the journal.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.content {
            EntryContent::Event(event) => self.apply_event(event),
            EntryContent::Commit(commit) => self.add_commands(&commit.commands),
        }
    }

    /// Adds the children that these commands start.
    pub fn add_commands(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::StartChild(child) = command {
                let StartChild { seq, run, parent_close, .. } = &**child;
                self.0.insert(*seq, OpenChild { run: run.clone(), parent_close: *parent_close });
            }
        }
    }

    /// Removes the child whose end this event reports.
    pub fn apply_event(&mut self, event: &RunEvent) {
        if let RunEvent::ChildDone { seq, .. } = event {
            self.0.remove(seq);
        }
    }

    /// The child with this number.
    pub fn get(&self, seq: u64) -> Option<&OpenChild> {
        self.0.get(&seq)
    }

    /// All open children with their numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenChild)> {
        self.0.iter().map(|(seq, child)| (*seq, child))
    }
}

fn close_answered(open: &mut BTreeMap<u64, OpenCommand>, event: &RunEvent) {
    match event {
        RunEvent::ActivityDone { seq, .. }
        | RunEvent::TimerFired { seq }
        | RunEvent::ChildDone { seq, .. }
        | RunEvent::SignalSent { seq, .. } => {
            open.remove(seq);
        }
        RunEvent::ChildStarted { seq, .. } => {
            let command = open.get(seq).map(|open| &open.command);
            if matches!(command, Some(Command::StartChild(child)) if child.notify_parent == NotifyParent::Start)
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

fn add_command(open: &mut BTreeMap<u64, OpenCommand>, command: &Command, since: Timestamp) {
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
        Entry::commit(Timestamp(at), Commit { upto: 1, commands, end, awaits: Vec::new() })
    }

    fn waiting(at: i64, names: &[&str]) -> Entry {
        let awaits = names.iter().map(|name| AwaitedMessage::Signal(name.parse().unwrap())).collect();
        Entry::commit(Timestamp(at), Commit { upto: 1, commands: Vec::new(), end: None, awaits })
    }

    #[test]
    fn a_message_is_awaited_since_the_first_commit_that_names_it_without_a_gap() {
        let signal = RunEvent::TimerFired { seq: 1 };
        let mut entries = vec![
            waiting(1, &["approve", "cancel"]),
            waiting(2, &["cancel"]),
            Entry::event(Timestamp(3), signal),
            waiting(4, &["approve", "cancel"]),
        ];
        let awaited = awaited_messages(&entries);
        let awaited: Vec<_> = awaited.iter().map(|(message, at)| (message.to_string(), at.0)).collect();
        assert_eq!(awaited, [("signal `approve`".to_owned(), 4), ("signal `cancel`".to_owned(), 1)]);
        entries.push(commit(5, Vec::new(), Some(RunEnd::Completed(Json::null()))));
        assert!(awaited_messages(&entries).is_empty());
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
