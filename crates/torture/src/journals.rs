//! Invariants of a journal, whatever happened to the workers that wrote it.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, anyhow, ensure};
use tidemill::RunId;
use tidemill::store::Store;
use tidemill::store::runs::ReadJournalParams;
use tidemill::workflow::testing::replay_every_prefix;
use tidemill::workflow::{Command, EntryContent, Journal, Program, Programs, RunEvent};

/// Asserts that every activity of a closed run ended once or was cancelled. Returns the number of
/// activities.
pub fn ended_once(journal: &Journal) -> Result<usize> {
    let (asked, ends) = (activities(journal), ends(journal));
    for (seq, times) in &ends {
        ensure!(*times == 1, "activity {seq} of {} ended {times} times", journal.run);
        ensure!(asked.contains_key(seq), "activity {seq} of {} ended, but was never scheduled", journal.run);
    }
    Ok(asked.len())
}

/// The activities that a run scheduled, by sequence number; without local activities.
pub fn activities(journal: &Journal) -> BTreeMap<u64, &str> {
    let asked = commands(journal).filter_map(|command| match command {
        Command::ScheduleActivity(activity) => Some((activity.seq, activity.name.as_str())),
        _ => None,
    });
    asked.collect()
}

/// The number of ends of each activity.
pub fn ends(journal: &Journal) -> HashMap<u64, usize> {
    let mut ends = HashMap::new();
    for entry in &journal.entries {
        if let EntryContent::Event(RunEvent::ActivityDone { seq, .. }) = &entry.content {
            *ends.entry(*seq).or_default() += 1;
        }
    }
    ends
}

/// All commands, in order.
pub fn commands(journal: &Journal) -> impl Iterator<Item = &Command> {
    journal.entries.iter().flat_map(|entry| match &entry.content {
        EntryContent::Commit(commit) => commit.commands.as_slice(),
        EntryContent::Event(_) => &[],
    })
}

/// The number of commits.
pub fn commits(journal: &Journal) -> usize {
    journal.entries.iter().filter(|entry| matches!(entry.content, EntryContent::Commit(_))).count()
}

/// Replays the journal from every prefix.
pub fn replays(program: Program, journal: &Journal) -> Result<()> {
    let mut programs = Programs::new();
    programs.add(program);
    replay_every_prefix(&programs, journal).map_err(|pause| anyhow!("{}: {pause}", journal.run))
}

/// Asserts that the positions in the store have no gap and no duplicate.
pub async fn assert_numbered(store: &dyn Store, run: &RunId) -> Result<()> {
    let entries =
        store.read_journal(ReadJournalParams { run, from: 1, limit: 1_000, bytes: usize::MAX }).await?;
    let (first, _) = entries.first().with_context(|| format!("{run} has no journal"))?;
    let positions: Vec<_> = entries.iter().map(|(position, _)| *position).collect();
    let expected: Vec<_> = (*first..).take(entries.len()).collect();
    ensure!(positions == expected, "{run} has entries at {positions:?}");
    Ok(())
}
