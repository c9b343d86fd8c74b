//! A file to which every process appends what it does, in lines that survive its death.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tidemill::{EventKind, JobId};

/// What happened to a job, or to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its handler began.
    Started,
    /// Its handler came to its end.
    Ended,
    /// The store accepted how an attempt ended.
    Settled(EventKind),
    /// Not a job: the worker has sent this many commands so far.
    Commands,
}

impl Step {
    fn word(self) -> String {
        match self {
            Self::Started => "started".into(),
            Self::Ended => "ended".into(),
            Self::Settled(ending) => ending.to_string(),
            Self::Commands => "commands".into(),
        }
    }
}

impl FromStr for Step {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        let settled = EventKind::ALL.into_iter().map(Self::Settled);
        let mut all = settled.chain([Self::Started, Self::Ended, Self::Commands]);
        all.find(|step| step.word() == word).with_context(|| format!("{word:?} is no step"))
    }
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// What.
    pub step: Step,
    /// By which process.
    pub pid: u32,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Which attempt, or how many commands.
    pub number: u64,
    /// To which job.
    pub job: String,
}

/// A ledger, open for appending.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Opens the ledger at `path`, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: file.with_context(|| format!("cannot open {}", path.display()))? })
    }

    /// Appends one line, in one write: lines of several processes do not mix.
    pub fn note(&self, step: Step, job: &JobId, attempt: u32) -> io::Result<()> {
        self.write(step, attempt.into(), job.as_str())
    }

    /// Appends how many commands this worker has sent so far.
    pub fn count(&self, commands: u64) -> io::Result<()> {
        self.write(Step::Commands, commands, "-")
    }

    fn write(&self, step: Step, number: u64, about: &str) -> io::Result<()> {
        let line = format!("{} {} {} {number} {about}\n", step.word(), std::process::id(), now());
        (&self.file).write_all(line.as_bytes())
    }
}

/// Reads every line of the ledger at `path`.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A writer may be in the middle of the last line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| parse(line).with_context(|| format!("{line:?} is no line"))).collect()
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let step = words.next()?.parse().ok()?;
    let (pid, at, number) = (words.next()?, words.next()?, words.next()?);
    let (pid, at, number) = (pid.parse().ok()?, at.parse().ok()?, number.parse().ok()?);
    Some(Line { step, pid, at, number, job: words.next()?.to_owned() })
}

/// Milliseconds since 1970: the only clock that several processes share.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::open(&path).unwrap();
        let job = JobId::new("a").unwrap();
        for step in [Step::Started, Step::Settled(EventKind::HandedBack)] {
            ledger.note(step, &job, 3).unwrap();
        }
        let lines = read(&path).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[1].step, lines[1].number), (Step::Settled(EventKind::HandedBack), 3));
        assert_eq!((lines[1].pid, lines[1].job.as_str()), (std::process::id(), "a"));
    }
}
