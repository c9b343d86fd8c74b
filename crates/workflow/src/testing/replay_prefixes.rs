//! `replay_every_prefix`: covers a crash at any moment.

use tidemill_core::workflow::{Command, Commit, Entry, EntryContent, Journal, PositionedEvent, RunEvent};

use crate::blocked::Blocked;
use crate::program::{Program, Programs};
use crate::replay::{Advance, Replayer};

/// A journal that the current code diverges from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The run is blocked.
    #[error("{0}")]
    Halted(#[from] Blocked),
    /// From one prefix on, the code behaves differently.
    #[error("run `{run}` goes another way from entry {position} on\n  journal: {expected}\n  code:    {got}")]
    Differs {
        /// The run.
        run: String,
        /// The position of the commit.
        position: usize,
        /// What the journal recorded.
        expected: String,
        /// What the code did.
        got: String,
    },
    /// There is no program for the workflow and its version.
    #[error("no program for {0}")]
    NoProgram(String),
}

/// Replays a journal from the beginning, and from the beginning up to each commit. There the code
/// must issue exactly the recorded commands. Does not compare side effects and the results of local
/// activities, because they come from outside the journal.
pub fn replay_every_prefix(programs: &Programs, journal: &Journal) -> Result<(), ReplayError> {
    let program = program_of(programs, journal)?;
    replay_whole(program, journal)?;
    let mut begin = 0;
    for (index, entry) in journal.entries.iter().enumerate() {
        if let EntryContent::Commit(commit) = &entry.content {
            replay_prefix(program, journal, begin..index, commit)?;
            begin = index + 1;
        }
    }
    Ok(())
}

/// Replays a journal from the beginning.
pub(super) fn replay_whole(program: &Program, journal: &Journal) -> Result<(), Blocked> {
    new_replayer(program, journal).replay(journal.entries.iter().cloned())
}

fn new_replayer(program: &Program, journal: &Journal) -> Replayer {
    Replayer::new(program, journal.run.clone()).base(journal.base).journal_limit(u64::MAX)
}

pub(super) fn program_of<'a>(programs: &'a Programs, journal: &Journal) -> Result<&'a Program, ReplayError> {
    let started = journal.entries.first().and_then(|entry| match &entry.content {
        EntryContent::Event(RunEvent::Started(started)) => Some(started),
        _ => None,
    });
    let Some(started) = started else {
        let message = "it does not begin with `started`".to_owned();
        return Err(Blocked::Damaged { position: 1, message }.into());
    };
    let unknown = || ReplayError::NoProgram(format!("workflow `{}` {}", started.workflow, started.version));
    programs.find(&started.workflow, &started.version).ok_or_else(unknown)
}

/// Replays the entries before `since` and runs the next task as if for the first time.
fn replay_prefix(
    program: &Program,
    journal: &Journal,
    since: std::ops::Range<usize>,
    commit: &Commit,
) -> Result<(), ReplayError> {
    let (before, new_events) = (&journal.entries[..since.start], &journal.entries[since.clone()]);
    let mut replayer = new_replayer(program, journal);
    replayer.replay(before.iter().cloned())?;
    let events = positioned_events(journal.base + since.start as u64, new_events)
        .filter(|event| event.position <= commit.upto);
    let mut advance = replayer.advance(events.collect::<Vec<_>>())?;
    let mut local_results = commit.commands.iter().filter_map(local_result);
    while let Advance::Local(_) = advance {
        let Some((seq, result, attempts)) = local_results.next() else { break };
        replayer.finish_local(*seq, result.clone(), *attempts);
        advance = replayer.advance([])?;
    }
    match advance {
        Advance::Commit(repeated) if is_same(&repeated, commit) => Ok(()),
        other => Err(ReplayError::Differs {
            run: journal.run.to_string(),
            position: since.end + 1,
            expected: format!("{commit:?}"),
            got: format!("{other:?}"),
        }),
    }
}

/// The events among `entries` with their positions. The first entry is at `offset + 1`.
fn positioned_events(offset: u64, entries: &[Entry]) -> impl Iterator<Item = PositionedEvent> {
    entries.iter().enumerate().filter_map(move |(index, entry)| match &entry.content {
        EntryContent::Event(event) => {
            Some(PositionedEvent { position: offset + index as u64 + 1, at: entry.at, event: event.clone() })
        }
        EntryContent::Commit(_) => None,
    })
}

fn local_result(command: &Command) -> Option<(&u64, &tidemill_core::workflow::ActivityResult, &u32)> {
    match command {
        Command::LocalActivity { seq, result, attempts, .. } => Some((seq, result, attempts)),
        _ => None,
    }
}

fn is_same(repeated: &Commit, commit: &Commit) -> bool {
    let commands = repeated.commands.iter().zip(&commit.commands).all(|pair| match pair {
        (Command::SideEffect { seq, .. }, Command::SideEffect { seq: other, .. }) => seq == other,
        (command, other) => command == other,
    });
    commands
        && repeated.commands.len() == commit.commands.len()
        && (repeated.upto, &repeated.end) == (commit.upto, &commit.end)
}
