//! The orphan killer: a small shell process that outlives this one just long enough to kill its
//! browsers and remove its directory.
//!
//! When this process is killed, none of its own code runs. The orphan killer reads from a pipe and
//! acts when the pipe closes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;
use tracing::warn;

const SCRIPT: &str = include_str!("orphan_killer.sh");

/// Cleans up when this process dies.
#[derive(Debug)]
pub(super) struct OrphanKiller {
    directory: PathBuf,
    killer: Mutex<KillerProcess>,
}

#[derive(Debug)]
struct KillerProcess {
    process: Child,
    /// The groups it knows, sent to its replacement if it is killed.
    groups: BTreeSet<i32>,
}

impl OrphanKiller {
    /// An orphan killer for `directory`, which it removes in the end.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let killer = KillerProcess { process: spawn(directory)?, groups: BTreeSet::new() };
        Ok(Self { directory: directory.to_owned(), killer: Mutex::new(killer) })
    }

    /// Adds a process group. From here on the group does not outlive this process.
    pub(super) fn add_group(&self, group: Pid) -> io::Result<()> {
        let (mut killer, group) = (self.killer(), group.as_raw_nonzero().get());
        killer.groups.insert(group);
        self.send(&mut killer, &format!("keep {group}\n"))
    }

    /// Removes a group that has ended: its id may soon be reused.
    pub(super) fn remove_group(&self, group: Pid) {
        let (mut killer, group) = (self.killer(), group.as_raw_nonzero().get());
        killer.groups.remove(&group);
        if let Err(error) = self.send(&mut killer, &format!("forget {group}\n")) {
            warn!("the orphan killer cannot be started: {error}");
        }
    }

    /// Lets the orphan killer do its work now, and waits for it. Blocks.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut killer = self.killer();
        drop(killer.process.stdin.take());
        killer.process.wait().map(drop)
    }

    /// Sends a line. An orphan killer that was killed is replaced by one that knows the same
    /// groups.
    fn send(&self, killer: &mut KillerProcess, line: &str) -> io::Result<()> {
        if killer.write(line).is_ok() {
            return Ok(());
        }
        let _ = killer.process.wait();
        killer.process = spawn(&self.directory)?;
        let orders: String = killer.groups.iter().map(|group| format!("keep {group}\n")).collect();
        killer.write(&orders)
    }

    fn killer(&self) -> MutexGuard<'_, KillerProcess> {
        self.killer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KillerProcess {
    fn write(&mut self, line: &str) -> io::Result<()> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.process.stdin.as_mut().ok_or_else(closed)?.write_all(line.as_bytes())
    }
}

fn spawn(directory: &Path) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "tidemill-orphan-killer"]).arg(directory);
    // A browser could read another process's environment, so this one has no secrets either.
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    // A separate process group: a terminal interrupt ends this process, and the orphan killer
    // cleans up after it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn()
}
