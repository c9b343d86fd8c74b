//! Holding the ledger against what was promised.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Result, ensure};
use tidemill::EventKind;

use crate::ledger::{Line, Step};

/// A ledger that was read.
#[derive(Debug, Default)]
pub struct Audit {
    lines: Vec<Line>,
}

impl Audit {
    /// Examines these lines.
    pub fn of(lines: Vec<Line>) -> Self {
        Self { lines }
    }

    /// The lines of one step, by whoever.
    pub fn all(&self, step: Step) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.step == step)
    }

    /// How often a step was taken.
    pub fn count(&self, step: Step) -> usize {
        self.all(step).count()
    }

    /// How often a step was taken by one process.
    pub fn count_by(&self, pid: u32, step: Step) -> usize {
        self.all(step).filter(|line| line.pid == pid).count()
    }

    /// How often each job took a step.
    pub fn per_job(&self, step: Step) -> HashMap<&str, usize> {
        let mut times = HashMap::new();
        self.all(step).for_each(|line| *times.entry(line.job.as_str()).or_default() += 1);
        times
    }

    /// When a step was taken for the last time.
    pub fn last(&self, step: Step) -> Option<u64> {
        self.all(step).map(|line| line.at).max()
    }

    /// When a step was taken for the first time after `time`.
    pub fn first_after(&self, step: Step, time: u64) -> Option<u64> {
        self.all(step).map(|line| line.at).filter(|at| *at >= time).min()
    }

    /// How many commands one process had sent by then.
    pub fn commands(&self, pid: u32) -> u64 {
        let counts = self.all(Step::Commands).filter(|line| line.pid == pid);
        counts.map(|line| line.number).max().unwrap_or(0)
    }

    /// Asserts that no job came to more than one end: done, dead, discarded or cancelled, at most one of them.
    pub fn assert_ended_once(&self) -> Result<()> {
        let ends = [EventKind::Done, EventKind::Dead, EventKind::Discarded, EventKind::Cancelled];
        let mut endings: HashMap<&str, usize> = HashMap::new();
        for ending in ends {
            self.all(Step::Settled(ending)).for_each(|line| *endings.entry(&line.job).or_default() += 1);
        }
        let twice: Vec<_> = endings.iter().filter(|(_, times)| **times > 1).collect();
        ensure!(twice.is_empty(), "settled more than once: {twice:?}");
        Ok(())
    }

    /// Asserts that each of `jobs` came to its handler's end.
    pub fn assert_all_ran(&self, jobs: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let ended = self.per_job(Step::Ended);
        let jobs = jobs.into_iter();
        let lost: Vec<_> =
            jobs.filter(|job| !ended.contains_key(job.as_ref())).map(|job| job.as_ref().to_owned()).collect();
        ensure!(lost.is_empty(), "{} jobs were lost, such as {:?}", lost.len(), lost.first());
        Ok(())
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settled = EventKind::ALL.map(|ending| (ending.to_string(), self.count(Step::Settled(ending))));
        let (started, ended) = (self.count(Step::Started), self.count(Step::Ended));
        write!(f, "{started} started, {ended} ended")?;
        settled
            .iter()
            .filter(|(_, times)| *times > 0)
            .try_for_each(|(what, times)| write!(f, ", {times} {what}"))
    }
}
