//! A program and everything it starts: one process group, which ends as one.

use std::collections::HashSet;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;
use tokio::sync::Notify;

/// What a program may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How often to look whether a group is gone: nobody tells.
const GLANCE: Duration = Duration::from_millis(20);

/// The groups that are alive.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    alive: Mutex<HashSet<Pid>>,
    changed: Notify,
}

impl Groups {
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

    /// Waits until the groups that were asked to end have ended, which takes no longer than their grace.
    pub(crate) async fn gone(&self) {
        loop {
            let changed = self.changed.notified();
            if self.alive().is_empty() {
                return;
            }
            if tokio::time::timeout(2 * GRACE, changed).await.is_err() {
                return self.kill();
            }
        }
    }
}

/// A running program. Dropping it ends its whole group.
#[derive(Debug)]
pub(super) struct Group {
    /// Its leader, until it is handed over to its undertaker.
    leader: Option<Child>,
    id: Option<Pid>,
    groups: Arc<Groups>,
}

impl Group {
    pub(super) fn of(leader: Child, groups: &Arc<Groups>) -> Self {
        // A process that was started as the leader of its group gives the group its id.
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

impl Drop for Group {
    fn drop(&mut self) {
        let (Some(leader), Some(id)) = (self.leader.take(), self.id) else { return };
        if kill_process_group(id, Signal::TERM).is_err() {
            // There is nobody in it any more: the usual case of a program that ended by itself.
            return self.groups.forget(id);
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(bury(leader, id, self.groups.clone()))),
            Err(_) => drop(kill_process_group(id, Signal::KILL)),
        }
    }
}

/// Sees a group that was asked to end to its end.
async fn bury(mut leader: Child, id: Pid, groups: Arc<Groups>) {
    let gone = async {
        let _ = leader.wait().await;
        while test_kill_process_group(id).is_ok() {
            tokio::time::sleep(GLANCE).await;
        }
    };
    if tokio::time::timeout(GRACE, gone).await.is_err() {
        let _ = kill_process_group(id, Signal::KILL);
        let _ = leader.wait().await;
    }
    groups.forget(id);
}
