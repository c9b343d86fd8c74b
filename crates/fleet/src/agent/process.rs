//! A process group with a directory: both are removed together, however this process ends.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::environment::EnvVars;
use super::output_log::{OutputLines, OutputTail, read_output};
use super::temp_dirs::TempDirs;

/// Waits for a line, sent once the orphan killer knows the group, and then becomes the program. If
/// this process dies first, the pipe closes and nothing is left to clean up.
const EXEC_SCRIPT: &str = "read -r go && exec \"$@\" </dev/null 2>&1";
/// The same for a program that reads its standard input.
const EXEC_WITH_STDIN_SCRIPT: &str = "read -r go && exec \"$@\" 2>&1";

/// How long a killed group may take to disappear. After that only zombies are left, which hold
/// nothing.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to check whether a group is gone: there is no notification.
const GROUP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A program to start.
#[derive(Debug, Clone)]
pub(super) struct ProcessSpec {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// Its whole environment: nothing is inherited.
    pub(super) env: EnvVars,
    /// Whether the program reads lines from its standard input.
    pub(super) reads_stdin: bool,
}

/// A running program with all its descendants. Dropping it kills them.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Child,
    /// The program's own group, and groups that its children created.
    groups: Vec<Pid>,
    /// Its standard input, if it reads that.
    stdin: Option<ChildStdin>,
    /// The number of its directory.
    number: u64,
    temp_dirs: Arc<TempDirs>,
    pub(super) output_tail: OutputTail,
}

impl ProcessGroup {
    /// Starts a program in the browser directory `number`.
    pub(super) async fn start(
        temp_dirs: &Arc<TempDirs>,
        number: u64,
        spec: &ProcessSpec,
    ) -> io::Result<(Self, OutputLines)> {
        let mut leader = spawn(spec)?;
        let pid = leader.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        let mut stdin = leader.stdin.take();
        let (lines, output_tail) = read_output(leader.stdout.take());
        let (groups, temp_dirs) = (vec![pid], temp_dirs.clone());
        let mut process = Self { leader, groups, stdin: None, number, temp_dirs, output_tail };
        process.temp_dirs.orphan_killer.add_group(pid)?;
        if let Some(stdin) = &mut stdin {
            stdin.write_all(b"go\n").await?;
        }
        process.stdin = stdin.filter(|_| spec.reads_stdin);
        Ok((process, lines))
    }

    /// The process id of the program.
    pub(super) fn pid(&self) -> i32 {
        self.groups.first().map_or(0, |group| group.as_raw_nonzero().get())
    }

    /// Adds a group that a child of the program created for itself.
    pub(super) fn add_group(&mut self, group: Pid) -> io::Result<()> {
        self.groups.push(group);
        self.temp_dirs.orphan_killer.add_group(group)
    }

    /// Takes the program's standard input, if it reads that. Only once.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Waits for the program's end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.leader.wait().await
    }

    /// Kills all groups, waits until they are gone, and removes the directory.
    pub(super) async fn destroy(mut self) {
        self.kill();
        let _ = self.leader.wait().await;
        let gone = async {
            while self.groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
                tokio::time::sleep(GROUP_POLL_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(KILL_TIMEOUT, gone).await;
        for group in self.groups.drain(..) {
            self.temp_dirs.orphan_killer.remove_group(group);
        }
        self.temp_dirs.remove_browser_dir(self.number).await;
    }

    fn kill(&self) {
        for group in &self.groups {
            // The group may be empty.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    /// SIGKILL cannot be refused, so the orphan killer drops the groups: their ids may soon be
    /// reused.
    fn drop(&mut self) {
        self.kill();
        self.groups.iter().for_each(|group| self.temp_dirs.orphan_killer.remove_group(*group));
    }
}

fn spawn(spec: &ProcessSpec) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        if spec.reads_stdin { EXEC_WITH_STDIN_SCRIPT } else { EXEC_SCRIPT },
        "tidemill-browser",
    ]);
    command.arg(&spec.program).args(&spec.args);
    command.env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command.spawn()
}
