//! A server process under a supervising shell, which stops it and removes its directory even if the
//! test process is killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use super::ServerError;

const SCRIPT: &str = include_str!("supervisor.sh");

/// The command of a server, its directory, and its stop signal.
pub(super) struct ServerSpec {
    /// Removed at the end, with all its content.
    pub(super) directory: PathBuf,
    /// The server and its arguments.
    pub(super) command: Vec<String>,
    /// The signal after which the server leaves nothing behind, without the prefix `SIG`.
    pub(super) stop_signal: &'static str,
}

/// A server and its supervising shell.
pub(super) struct ServerProcess {
    directory: PathBuf,
    shell: Mutex<SupervisorShell>,
}

struct SupervisorShell {
    process: Child,
    /// Dropped at the end: its closing makes the shell clean up.
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    /// The pid of the server, if it was started and not reaped.
    server: Option<Pid>,
}

impl ServerProcess {
    pub(super) fn new(spec: ServerSpec) -> Result<Self, ServerError> {
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "supervisor"])
            .arg(&spec.directory)
            .arg(spec.stop_signal)
            .args(spec.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A process group of its own: an interrupt from the terminal ends the test, and the
            // shell cleans up after it.
            .process_group(0)
            .spawn()?;
        let (commands, replies) = (process.stdin.take(), process.stdout.take());
        let replies =
            BufReader::new(replies.ok_or_else(|| ServerError::new("the supervisor has no output"))?);
        let shell = SupervisorShell { process, commands, replies, server: None };
        Ok(Self { directory: spec.directory, shell: Mutex::new(shell) })
    }

    /// Starts the server and returns its pid. It may still fail to start up.
    pub(super) fn start(&self) -> Result<u32, ServerError> {
        let mut shell = self.shell();
        let reply = shell.send("start")?;
        let pid: i32 =
            reply.parse().map_err(|_| ServerError::new(format!("the supervisor replied {reply:?}")))?;
        shell.server = Pid::from_raw(pid);
        Ok(pid.unsigned_abs())
    }

    /// Whether the server runs. A zombie does not.
    pub(super) fn is_alive(&self) -> bool {
        self.shell().server.is_some_and(|pid| !has_ended(pid))
    }

    /// Sends a signal to the server and to its children, which may have process groups of their
    /// own.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        let pid = self.shell().server.ok_or_else(|| ServerError::new("the server is not running"))?;
        // The server first: once it is stopped or dead, it starts no more children.
        kill_process(pid, signal)
            .map_err(|error| ServerError::new(format!("cannot signal {pid:?}: {error}")))?;
        for child in children(pid) {
            // The child may have ended meanwhile.
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    /// Kills the server and waits until it has ended. Does nothing if it does not run.
    pub(super) fn kill(&self) -> Result<(), ServerError> {
        if self.shell().server.is_none() {
            return Ok(());
        }
        self.signal(Signal::KILL)?;
        let mut shell = self.shell();
        shell.server = None;
        shell.send("reap").map(drop)
    }

    /// The last lines of the server's log.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn shell(&self) -> MutexGuard<'_, SupervisorShell> {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorShell {
    fn send(&mut self, command: &str) -> Result<String, ServerError> {
        let commands = self.commands.as_mut().ok_or_else(|| ServerError::new("the supervisor has ended"))?;
        writeln!(commands, "{command}")?;
        let mut reply = String::new();
        self.replies.read_line(&mut reply)?;
        Ok(reply.trim().to_owned())
    }
}

impl Drop for SupervisorShell {
    fn drop(&mut self) {
        drop(self.commands.take());
        // A test that has ended cannot handle errors of the clean-up.
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
    // The name before the last parenthesis may itself contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
}
