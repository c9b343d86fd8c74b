//! Keeps a server process: starts it, signals it, and removes it with its directory even if the test process
//! is killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use super::Error;

const SCRIPT: &str = include_str!("warden.sh");

/// What to run, where, and how to end it.
pub(super) struct Charge {
    /// Removed at the end, with everything in it.
    pub(super) directory: PathBuf,
    /// The server and its arguments.
    pub(super) command: Vec<String>,
    /// The signal after which it leaves nothing behind, without its `SIG`.
    pub(super) farewell: &'static str,
}

/// The shell that keeps one server.
pub(super) struct Warden {
    directory: PathBuf,
    shell: Mutex<Shell>,
}

struct Shell {
    process: Child,
    /// Taken away at the end: that is what tells the shell to clean up.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The server, if it has been started and not been reaped.
    server: Option<Pid>,
}

impl Warden {
    pub(super) fn new(charge: Charge) -> Result<Self, Error> {
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "warden"])
            .arg(&charge.directory)
            .arg(charge.farewell)
            .args(charge.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: an interrupt from the terminal ends the test, and the shell cleans up after it.
            .process_group(0)
            .spawn()?;
        let (orders, answers) = (process.stdin.take(), process.stdout.take());
        let answers = BufReader::new(answers.ok_or_else(|| Error::new("the warden has no output"))?);
        let shell = Shell { process, orders, answers, server: None };
        Ok(Self { directory: charge.directory, shell: Mutex::new(shell) })
    }

    /// Starts the server and returns its pid. It may still fail to come up.
    pub(super) fn start(&self) -> Result<u32, Error> {
        let mut shell = self.shell();
        let answer = shell.order("start")?;
        let pid: i32 = answer.parse().map_err(|_| Error::new(format!("the warden says {answer:?}")))?;
        shell.server = Pid::from_raw(pid);
        Ok(pid.unsigned_abs())
    }

    /// Whether the server runs. One that has ended but was not reaped does not.
    pub(super) fn is_alive(&self) -> bool {
        self.shell().server.is_some_and(|pid| !has_ended(pid))
    }

    /// Sends a signal to the server and to its children, which may have groups of their own.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.shell().server.ok_or_else(|| Error::new("the server is not running"))?;
        // The server first: once it is stopped or dead, there will be no more children.
        kill_process(pid, signal).map_err(|error| Error::new(format!("cannot signal {pid:?}: {error}")))?;
        for child in children(pid) {
            // It may have ended by itself in the meantime.
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    /// Kills the server and waits for its end. A server that is not running is left alone.
    pub(super) fn kill(&self) -> Result<(), Error> {
        if self.shell().server.is_none() {
            return Ok(());
        }
        self.signal(Signal::KILL)?;
        let mut shell = self.shell();
        shell.server = None;
        shell.order("reap").map(drop)
    }

    /// The last lines the server wrote.
    pub(super) fn last_words(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn shell(&self) -> MutexGuard<'_, Shell> {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shell {
    fn order(&mut self, order: &str) -> Result<String, Error> {
        let orders = self.orders.as_mut().ok_or_else(|| Error::new("the warden is gone"))?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Its errors are its own: a test that is over cannot do anything about them.
        let _ = self.process.wait();
    }
}

/// A process that has ended stays visible as a zombie until it is reaped.
fn has_ended(pid: Pid) -> bool {
    stat(&pid.as_raw_nonzero().to_string()).is_none_or(|(state, _)| state == "Z")
}

fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let offspring = names.filter(|pid| stat(pid).is_some_and(|(_, by)| by == parent));
    offspring.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A process's state and parent.
fn stat(pid: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may itself hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
}
