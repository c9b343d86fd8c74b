//! A worker process, seen from whoever torments it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::duty::{Account, Duty};
use crate::fate::{LAST_WORDS, Point};

/// What a worker says when it is about to claim.
pub const READY: &str = "ready";

/// How a worker ended.
#[derive(Debug)]
pub enum End {
    /// When it was told to, with this account.
    InOrder(Account),
    /// At the point where it was to be killed.
    Met(Point),
}

/// A worker process. Dropping it kills it.
pub struct Member {
    process: Child,
    words: BufReader<ChildStdout>,
}

impl Member {
    /// Starts a worker and waits until it is about to claim.
    pub fn start(program: &Path, duty: &Duty) -> Result<Self> {
        let mut process = Command::new(program)
            .arg("worker")
            .arg(serde_json::to_string(duty)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let words = BufReader::new(process.stdout.take().context("a worker without output")?);
        let mut member = Self { process, words };
        let mut word = String::new();
        member.words.read_line(&mut word)?;
        ensure!(word.trim() == READY, "a worker did not start: it said {word:?}");
        Ok(member)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended by itself, and was reaped.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<()> {
        self.process.wait().context("cannot wait for a worker").map(drop)
    }

    /// SIGKILL: it has no last words.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.wait()
    }

    /// SIGSTOP: it stands still in the middle of whatever it does.
    pub fn halt(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: it goes on and does not know that time has passed.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // It is our child and not reaped, so its pid cannot have been given to another.
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("a worker without a pid")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal worker {pid:?}"))
    }

    /// Waits until it comes to the point where it is to be stopped.
    pub fn await_fate(&mut self) -> Result<()> {
        let mut words = String::new();
        while !words.starts_with(LAST_WORDS) {
            words.clear();
            ensure!(self.words.read_line(&mut words)? > 0, "a worker has ended before its time");
        }
        Ok(())
    }

    /// Ends it in order and returns its account.
    pub fn dismiss(self) -> Result<Account> {
        match self.end()? {
            End::InOrder(account) => Ok(account),
            End::Met(point) => bail!("a worker was killed where it {point}"),
        }
    }

    /// Ends it in order, if it has not met its fate.
    pub fn end(mut self) -> Result<End> {
        drop(self.process.stdin.take());
        let mut words = String::new();
        self.words.read_to_string(&mut words)?;
        self.wait()?;
        // Jobs may talk, too.
        let last = words.lines().last().unwrap_or_default();
        match last.strip_prefix(LAST_WORDS) {
            Some(point) => serde_json::from_str(point).map(End::Met),
            None => serde_json::from_str(last).map(End::InOrder),
        }
        .with_context(|| format!("a worker ended with {words:?}"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
