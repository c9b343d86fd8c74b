//! Replaying a journal from every prefix: what a crash at any moment comes to.

use tidemill_core::workflow::{Command, Commit, Entry, EntryContent, Journal, PositionedEvent, RunEvent};

use crate::halt::Halt;
use crate::machine::{Advance, Machine};
use crate::program::{Program, Programs};

/// A journal that the code of today does not agree with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The code stopped.
    #[error("{0}")]
    Halted(#[from] Halt),
    /// From one prefix on the code goes another way than before.
    #[error("run `{run}` goes another way from entry {position} on\n  journal: {expected}\n  code:    {got}")]
    Differs {
        /// Whose journal.
        run: String,
        /// Where.
        position: usize,
        /// What the journal has.
        expected: String,
        /// What the code did.
        got: String,
    },
    /// Nobody knows the workflow, or not in this version.
    #[error("no program for {0}")]
    NoProgram(String),
}

/// Replays a journal from the beginning, and from the beginning up to each commit, where the code must ask for the
/// same things as it did then, to the letter. What came from outside the journal is not compared: side effects, and
/// how local activities ended.
pub fn replay_every_prefix(programs: &Programs, journal: &Journal) -> Result<(), ReplayError> {
    let program = program_of(programs, journal)?;
    whole(program, journal)?;
    let mut begun = 0;
    for (index, entry) in journal.entries.iter().enumerate() {
        if let EntryContent::Commit(commit) = &entry.what {
            prefix(program, journal, begun..index, commit)?;
            begun = index + 1;
        }
    }
    Ok(())
}

/// Replays a journal from the beginning.
pub(super) fn whole(program: &Program, journal: &Journal) -> Result<(), Halt> {
    fresh(program, journal).replay(journal.entries.iter().cloned())
}

fn fresh(program: &Program, journal: &Journal) -> Machine {
    Machine::new(program, journal.run.clone()).base(journal.base).limit(u64::MAX)
}

pub(super) fn program_of<'a>(programs: &'a Programs, journal: &Journal) -> Result<&'a Program, ReplayError> {
    let started = journal.entries.first().and_then(|entry| match &entry.what {
        EntryContent::Event(RunEvent::Started(started)) => Some(started),
        _ => None,
    });
    let Some(started) = started else {
        let message = "it does not begin with `started`".to_owned();
        return Err(Halt::Damaged { position: 1, message }.into());
    };
    let unknown = || ReplayError::NoProgram(format!("workflow `{}` {}", started.workflow, started.version));
    programs.find(&started.workflow, &started.version).ok_or_else(unknown)
}

/// Replays what is before `since`, and does the next task as if for the first time.
fn prefix(
    program: &Program,
    journal: &Journal,
    since: std::ops::Range<usize>,
    commit: &Commit,
) -> Result<(), ReplayError> {
    let (before, news) = (&journal.entries[..since.start], &journal.entries[since.clone()]);
    let mut machine = fresh(program, journal);
    machine.replay(before.iter().cloned())?;
    let arrived =
        arrivals(journal.base + since.start as u64, news).filter(|arrived| arrived.position <= commit.upto);
    let mut advance = machine.advance(arrived.collect::<Vec<_>>())?;
    let mut locals = commit.commands.iter().filter_map(local);
    while let Advance::Local(_) = advance {
        let Some((seq, result, attempts)) = locals.next() else { break };
        machine.finish_local(*seq, result.clone(), *attempts);
        advance = machine.advance([])?;
    }
    match advance {
        Advance::Commit(again) if is_same(&again, commit) => Ok(()),
        other => Err(ReplayError::Differs {
            run: journal.run.to_string(),
            position: since.end + 1,
            expected: format!("{commit:?}"),
            got: format!("{other:?}"),
        }),
    }
}

/// Events with their positions, `entries` being those after position `offset`.
fn arrivals(offset: u64, entries: &[Entry]) -> impl Iterator<Item = PositionedEvent> {
    entries.iter().enumerate().filter_map(move |(index, entry)| match &entry.what {
        EntryContent::Event(event) => {
            Some(PositionedEvent { position: offset + index as u64 + 1, at: entry.at, event: event.clone() })
        }
        EntryContent::Commit(_) => None,
    })
}

fn local(command: &Command) -> Option<(&u64, &tidemill_core::workflow::ActivityResult, &u32)> {
    match command {
        Command::LocalActivity { seq, result, attempts, .. } => Some((seq, result, attempts)),
        _ => None,
    }
}

fn is_same(again: &Commit, commit: &Commit) -> bool {
    let commands = again.commands.iter().zip(&commit.commands).all(|pair| match pair {
        (Command::SideEffect { seq, .. }, Command::SideEffect { seq: other, .. }) => seq == other,
        (command, other) => command == other,
    });
    commands
        && again.commands.len() == commit.commands.len()
        && (again.upto, &again.end) == (commit.upto, &commit.end)
}
