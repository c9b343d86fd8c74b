//! Checks of a ledger against the guarantees.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Result, ensure};
use tidemill::EventKind;

use crate::ledger::{LedgerEntry, LedgerEvent};

/// The entries of a ledger.
#[derive(Debug, Default)]
pub struct Audit {
    entries: Vec<LedgerEntry>,
}

impl Audit {
    /// Wraps these entries.
    pub fn new(entries: Vec<LedgerEntry>) -> Self {
        Self { entries }
    }

    /// The entries of one event, by all processes.
    pub fn all(&self, event: LedgerEvent) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.iter().filter(move |entry| entry.event == event)
    }

    /// The number of entries of an event.
    pub fn count(&self, event: LedgerEvent) -> usize {
        self.all(event).count()
    }

    /// The number of entries of an event by one process.
    pub fn count_by(&self, pid: u32, event: LedgerEvent) -> usize {
        self.all(event).filter(|entry| entry.pid == pid).count()
    }

    /// The number of entries of an event for each job.
    pub fn per_job(&self, event: LedgerEvent) -> HashMap<&str, usize> {
        let mut times = HashMap::new();
        self.all(event).for_each(|entry| *times.entry(entry.job.as_str()).or_default() += 1);
        times
    }

    /// The time of the last entry of an event.
    pub fn last(&self, event: LedgerEvent) -> Option<u64> {
        self.all(event).map(|entry| entry.at).max()
    }

    /// The time of the first entry of an event after `time`.
    pub fn first_after(&self, event: LedgerEvent, time: u64) -> Option<u64> {
        self.all(event).map(|entry| entry.at).filter(|at| *at >= time).min()
    }

    /// The number of commands that one process has sent.
    pub fn commands(&self, pid: u32) -> u64 {
        let counts = self.all(LedgerEvent::Commands).filter(|entry| entry.pid == pid);
        counts.map(|entry| entry.number).max().unwrap_or(0)
    }

    /// Asserts that each job ended at most once: done, dead, discarded or cancelled.
    pub fn assert_ended_once(&self) -> Result<()> {
        let ends = [EventKind::Done, EventKind::Dead, EventKind::Discarded, EventKind::Cancelled];
        let mut endings: HashMap<&str, usize> = HashMap::new();
        for ending in ends {
            self.all(LedgerEvent::Settled(ending))
                .for_each(|entry| *endings.entry(&entry.job).or_default() += 1);
        }
        let twice = endings.iter().find(|(_, times)| **times > 1).map(|(job, _)| self.history(job));
        ensure!(twice.is_none(), "settled more than once: {}", twice.unwrap_or_default());
        Ok(())
    }

    /// All entries of one job, in the order in which they were written.
    fn history(&self, job: &str) -> String {
        let entries = self.entries.iter().filter(|entry| entry.job == job);
        let entries = entries
            .map(|LedgerEntry { event, pid, at, number, .. }| format!("{event:?} {number} by {pid} at {at}"));
        format!("{job}: {}", entries.collect::<Vec<_>>().join(", "))
    }

    /// Asserts that the handler of each job finished at least once.
    pub fn assert_all_ran(&self, jobs: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let ended = self.per_job(LedgerEvent::Ended);
        let jobs = jobs.into_iter();
        let lost: Vec<_> =
            jobs.filter(|job| !ended.contains_key(job.as_ref())).map(|job| job.as_ref().to_owned()).collect();
        ensure!(lost.is_empty(), "{} jobs were lost, such as {:?}", lost.len(), lost.first());
        Ok(())
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settled =
            EventKind::ALL.map(|ending| (ending.to_string(), self.count(LedgerEvent::Settled(ending))));
        let (started, ended) = (self.count(LedgerEvent::Started), self.count(LedgerEvent::Ended));
        write!(f, "{started} started, {ended} ended")?;
        settled
            .iter()
            .filter(|(_, times)| *times > 0)
            .try_for_each(|(what, times)| write!(f, ", {times} {what}"))
    }
}
