//! The warden: a small shell that outlives this process just long enough to end its browsers and remove its directory.
//!
//! Nothing of this process runs when it is killed, so somebody else has to. The warden holds one end of a pipe and sees
//! it close.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;
use tracing::warn;

const SCRIPT: &str = include_str!("warden.sh");

/// Who cleans up after this process.
#[derive(Debug)]
pub(super) struct Warden {
    directory: PathBuf,
    shell: Mutex<Shell>,
}

#[derive(Debug)]
struct Shell {
    process: Child,
    /// What the warden knows, to be told to the next if this one is killed.
    kept: BTreeSet<i32>,
}

impl Warden {
    /// A warden for `directory`, which it removes in the end.
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let shell = Shell { process: start(directory)?, kept: BTreeSet::new() };
        Ok(Self { directory: directory.to_owned(), shell: Mutex::new(shell) })
    }

    /// Puts a group into the warden's hands. From here on it does not outlive this process.
    pub(super) fn keep(&self, group: Pid) -> io::Result<()> {
        let (mut shell, group) = (self.shell(), group.as_raw_nonzero().get());
        shell.kept.insert(group);
        self.tell(&mut shell, &format!("keep {group}\n"))
    }

    /// Takes a group that has ended out of the warden's hands: its number may soon be another's.
    pub(super) fn forget(&self, group: Pid) {
        let (mut shell, group) = (self.shell(), group.as_raw_nonzero().get());
        shell.kept.remove(&group);
        if let Err(error) = self.tell(&mut shell, &format!("forget {group}\n")) {
            warn!("nobody would clean up if this process were killed: {error}");
        }
    }

    /// Lets the warden do its work now, and waits for it. Blocks.
    pub(super) fn dismiss(&self) -> io::Result<()> {
        let mut shell = self.shell();
        drop(shell.process.stdin.take());
        shell.process.wait().map(drop)
    }

    /// A warden that somebody killed is replaced by one that knows the same.
    fn tell(&self, shell: &mut Shell, order: &str) -> io::Result<()> {
        if shell.write(order).is_ok() {
            return Ok(());
        }
        let _ = shell.process.wait();
        shell.process = start(&self.directory)?;
        let orders: String = shell.kept.iter().map(|group| format!("keep {group}\n")).collect();
        shell.write(&orders)
    }

    fn shell(&self) -> MutexGuard<'_, Shell> {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shell {
    fn write(&mut self, order: &str) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.process.stdin.as_mut().ok_or_else(gone)?.write_all(order.as_bytes())
    }
}

fn start(directory: &Path) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "tidemill-warden"]).arg(directory);
    // What browsers must not read is not to lie about in another process, either.
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    // A group of its own: an interrupt from the terminal ends this process, and the warden cleans up after it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn()
}
