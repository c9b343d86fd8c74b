//! A program and its child processes: one process group, terminated as a whole.

use std::collections::HashSet;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;
use tokio::sync::Notify;

/// Time that a process group has to end after SIGTERM.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// Interval of checks whether a group is gone, because the kernel sends no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The process groups that are alive.
#[derive(Debug, Default)]
pub(crate) struct ProcessGroups {
    alive: Mutex<HashSet<Pid>>,
    changed: Notify,
}

impl ProcessGroups {
    fn alive(&self) -> MutexGuard<'_, HashSet<Pid>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, group: Pid) {
        self.alive().remove(&group);
        self.changed.notify_waiters();
    }

    /// Kills every group at once.
    pub(crate) fn kill(&self) {
        for group in &*self.alive() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    /// Waits until the terminated groups have ended. This takes no longer than their grace period.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.alive().is_empty() {
                return;
            }
            if tokio::time::timeout(2 * TERMINATE_GRACE, changed).await.is_err() {
                return self.kill();
            }
        }
    }
}

/// A running program. Dropping it terminates its group.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    /// The leader, until [`reap`] takes it.
    leader: Option<Child>,
    id: Option<Pid>,
    groups: Arc<ProcessGroups>,
}

impl ProcessGroup {
    pub(super) fn new(leader: Child, groups: &Arc<ProcessGroups>) -> Self {
        // The id of the group is the pid of its leader.
        let id = leader.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        groups.alive().extend(id);
        Self { leader: Some(leader), id, groups: groups.clone() }
    }

    /// Waits for the program's end.
    pub(super) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        match &mut self.leader {
            Some(leader) => leader.wait().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let (Some(leader), Some(id)) = (self.leader.take(), self.id) else { return };
        if kill_process_group(id, Signal::TERM).is_err() {
            // The group is empty: the usual case of a program that ended by itself.
            return self.groups.forget(id);
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(reap(leader, id, self.groups.clone()))),
            Err(_) => drop(kill_process_group(id, Signal::KILL)),
        }
    }
}

/// Waits until a terminated group has ended, and kills it after the grace period.
async fn reap(mut leader: Child, id: Pid, groups: Arc<ProcessGroups>) {
    let gone = async {
        let _ = leader.wait().await;
        while test_kill_process_group(id).is_ok() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(TERMINATE_GRACE, gone).await.is_err() {
        let _ = kill_process_group(id, Signal::KILL);
        let _ = leader.wait().await;
    }
    groups.forget(id);
}
