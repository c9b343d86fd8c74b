//! What must be true of a journal, whatever happened to the workers that wrote it.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, anyhow, ensure};
use tidemill::store::runs::ReadJournalParams;
use tidemill::workflow::testing::replay_every_prefix;
use tidemill::workflow::{Command, EntryContent, Journal, Program, Programs, RunEvent};
use tidemill::{RunId, Store};

/// Every activity of a closed run has ended once, or was cancelled. Returns how many were asked for.
pub fn ended_once(journal: &Journal) -> Result<usize> {
    let (asked, ends) = (activities(journal), ends(journal));
    for (seq, times) in &ends {
        ensure!(*times == 1, "activity {seq} of {} ended {times} times", journal.run);
        ensure!(asked.contains_key(seq), "activity {seq} of {} ended and was not asked for", journal.run);
    }
    Ok(asked.len())
}

/// The activities that a run asked for, by number; those that ran inside a task are others.
pub fn activities(journal: &Journal) -> BTreeMap<u64, &str> {
    let asked = commands(journal).filter_map(|command| match command {
        Command::ScheduleActivity(activity) => Some((activity.seq, activity.name.as_str())),
        _ => None,
    });
    asked.collect()
}

/// How often each activity ended.
pub fn ends(journal: &Journal) -> HashMap<u64, usize> {
    let mut ends = HashMap::new();
    for entry in &journal.entries {
        if let EntryContent::Event(RunEvent::ActivityDone { seq, .. }) = &entry.content {
            *ends.entry(*seq).or_default() += 1;
        }
    }
    ends
}

/// Everything that was asked for, in order.
pub fn commands(journal: &Journal) -> impl Iterator<Item = &Command> {
    journal.entries.iter().flat_map(|entry| match &entry.content {
        EntryContent::Commit(commit) => commit.commands.as_slice(),
        EntryContent::Event(_) => &[],
    })
}

/// How many commits there are.
pub fn commits(journal: &Journal) -> usize {
    journal.entries.iter().filter(|entry| matches!(entry.content, EntryContent::Commit(_))).count()
}

/// Replays it from every prefix.
pub fn replays(program: Program, journal: &Journal) -> Result<()> {
    let mut programs = Programs::new();
    programs.add(program);
    replay_every_prefix(&programs, journal).map_err(|halt| anyhow!("{}: {halt}", journal.run))
}

/// Each position is there once: what the store has is numbered without a gap.
pub async fn assert_numbered(store: &dyn Store, run: &RunId) -> Result<()> {
    let entries =
        store.read_journal(ReadJournalParams { run, from: 1, limit: 1_000, bytes: usize::MAX }).await?;
    let (first, _) = entries.first().with_context(|| format!("{run} has no journal"))?;
    let positions: Vec<_> = entries.iter().map(|(position, _)| *position).collect();
    let expected: Vec<_> = (*first..).take(entries.len()).collect();
    ensure!(positions == expected, "{run} has entries at {positions:?}");
    Ok(())
}
