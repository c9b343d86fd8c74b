//! A process group with a directory of its own: both end as one, however this process ends.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::environment::Variables;
use super::place::Place;
use super::words::{LastWords, Lines, listen};

/// Waits to be told that the warden knows its group, and only then becomes the program. If this process dies in between,
/// the pipe closes, and there is nothing to clean up.
const DEAF: &str = "read -r go && exec \"$@\" </dev/null 2>&1";
/// The same for a program that is spoken to.
const LISTENING: &str = "read -r go && exec \"$@\" 2>&1";

/// What a group may take to vanish once it was killed. Longer than that only zombies stay, which hold nothing.
const TO_VANISH: Duration = Duration::from_secs(2);

/// How often to look whether a group is gone: nobody tells.
const GLANCE: Duration = Duration::from_millis(5);

/// What to run.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// All of its environment: nothing of this process's own is inherited.
    pub(super) variables: Variables,
    /// Whether the program reads orders from its standard input.
    pub(super) listens: bool,
}

/// A running program with everything it started. Dropping it kills them all.
#[derive(Debug)]
pub(super) struct Process {
    leader: Child,
    /// The program's own, and those its children made for themselves.
    groups: Vec<Pid>,
    /// Where orders go, if it listens.
    orders: Option<ChildStdin>,
    /// Which of the place's rooms it has.
    number: u64,
    place: Arc<Place>,
    pub(super) last_words: LastWords,
}

impl Process {
    /// Starts a program that has a room of the place for itself.
    pub(super) async fn start(place: &Arc<Place>, number: u64, launch: &Launch) -> io::Result<(Self, Lines)> {
        let mut leader = spawn(launch)?;
        let id = leader.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("the process has no id"))?;
        let mut orders = leader.stdin.take();
        let (lines, last_words) = listen(leader.stdout.take());
        let (groups, place) = (vec![id], place.clone());
        let mut process = Self { leader, groups, orders: None, number, place, last_words };
        process.place.warden.keep(id)?;
        if let Some(orders) = &mut orders {
            orders.write_all(b"go\n").await?;
        }
        process.orders = orders.filter(|_| launch.listens);
        Ok((process, lines))
    }

    /// The number of the program's process.
    pub(super) fn id(&self) -> i32 {
        self.groups.first().map_or(0, |group| group.as_raw_nonzero().get())
    }

    /// Takes in a group that a child of the program made for itself.
    pub(super) fn adopt(&mut self, group: Pid) -> io::Result<()> {
        self.groups.push(group);
        self.place.warden.keep(group)
    }

    /// Where the program hears what it is told, if it listens. Only once.
    pub(super) fn orders(&mut self) -> Option<ChildStdin> {
        self.orders.take()
    }

    /// Waits for the program's end.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.leader.wait().await
    }

    /// Kills all of it, sees it gone, and removes its directory.
    pub(super) async fn destroy(mut self) {
        self.kill();
        let _ = self.leader.wait().await;
        let gone = async {
            while self.groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
                tokio::time::sleep(GLANCE).await;
            }
        };
        let _ = tokio::time::timeout(TO_VANISH, gone).await;
        for group in self.groups.drain(..) {
            self.place.warden.forget(group);
        }
        self.place.vacate(self.number).await;
    }

    fn kill(&self) {
        for group in &self.groups {
            // There may be nobody in it any more.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    /// Nobody resists that signal, so the warden need not know the groups any longer: their numbers may soon be others'.
    fn drop(&mut self) {
        self.kill();
        self.groups.iter().for_each(|group| self.place.warden.forget(*group));
    }
}

fn spawn(launch: &Launch) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", if launch.listens { LISTENING } else { DEAF }, "tidemill-browser"]);
    command.arg(&launch.program).args(&launch.args);
    command.env_clear().envs(launch.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command.spawn()
}
