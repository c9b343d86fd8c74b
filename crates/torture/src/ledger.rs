//! The ledger: a file to which every process appends its events, in lines that survive its death.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tidemill::{EventKind, JobId};

/// An event of a job or a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerEvent {
    /// The handler of a job started.
    Started,
    /// The handler of a job finished.
    Ended,
    /// The store accepted the settlement of an attempt.
    Settled(EventKind),
    /// The number of commands that a worker has sent so far.
    Commands,
}

impl LedgerEvent {
    fn name(self) -> String {
        match self {
            Self::Started => "started".into(),
            Self::Ended => "ended".into(),
            Self::Settled(ending) => ending.to_string(),
            Self::Commands => "commands".into(),
        }
    }
}

impl FromStr for LedgerEvent {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        let settled = EventKind::ALL.into_iter().map(Self::Settled);
        let mut all = settled.chain([Self::Started, Self::Ended, Self::Commands]);
        all.find(|event| event.name() == word).with_context(|| format!("{word:?} is not an event"))
    }
}

/// One entry.
#[derive(Debug, Clone)]
pub struct LedgerEntry {
    /// The event.
    pub event: LedgerEvent,
    /// The process that wrote the entry.
    pub pid: u32,
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// The number of the attempt, or of commands.
    pub number: u64,
    /// The id of the job.
    pub job: String,
}

/// A ledger that is open for appending.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Opens the ledger at `path`, or creates it.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: file.with_context(|| format!("cannot open {}", path.display()))? })
    }

    /// Appends one entry with one write, so that the lines of several processes do not mix.
    pub fn record(&self, event: LedgerEvent, job: &JobId, attempt: u32) -> io::Result<()> {
        self.write(event, attempt.into(), job.as_str())
    }

    /// Appends the number of commands that this worker has sent so far.
    pub fn record_commands(&self, commands: u64) -> io::Result<()> {
        self.write(LedgerEvent::Commands, commands, "-")
    }

    fn write(&self, event: LedgerEvent, number: u64, job: &str) -> io::Result<()> {
        let entry = format!("{} {} {} {number} {job}\n", event.name(), std::process::id(), now());
        (&self.file).write_all(entry.as_bytes())
    }
}

/// Reads all entries of the ledger at `path`.
pub fn read(path: &Path) -> Result<Vec<LedgerEntry>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A writer may be in the middle of the last line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|entry| parse(entry).with_context(|| format!("{entry:?} is not an entry"))).collect()
}

fn parse(entry: &str) -> Option<LedgerEntry> {
    let mut fields = entry.split(' ');
    let event = fields.next()?.parse().ok()?;
    let (pid, at, number) = (fields.next()?, fields.next()?, fields.next()?);
    let (pid, at, number) = (pid.parse().ok()?, at.parse().ok()?, number.parse().ok()?);
    Some(LedgerEntry { event, pid, at, number, job: fields.next()?.to_owned() })
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
        for event in [LedgerEvent::Started, LedgerEvent::Settled(EventKind::HandedBack)] {
            ledger.record(event, &job, 3).unwrap();
        }
        let entries = read(&path).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[1].event, entries[1].number), (LedgerEvent::Settled(EventKind::HandedBack), 3));
        assert_eq!((entries[1].pid, entries[1].job.as_str()), (std::process::id(), "a"));
    }
}
