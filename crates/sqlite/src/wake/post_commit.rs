//! The wake-ups of a transaction that contains the user's work, to be published after its commit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tidemill_core::wake::{Wake, WakeSet};

/// The wake-ups of a call in a transaction of the user's. Pass them to
/// [`announce`](crate::SqliteStore::announce) after the commit, or drop them after a rollback. They
/// are empty inside [`transact`](crate::SqliteStore::transact) and
/// [`done`](crate::SqliteStore::done), which publish the wake-ups when their transaction commits.
#[derive(Debug, Default)]
#[must_use = "workers are woken at once only if this is announced after the commit"]
pub struct PendingWakes(pub(crate) WakeSet);

/// The wake-ups of the user's work that the writer runs at the moment.
#[derive(Debug, Default)]
pub(crate) struct PostCommitWakes {
    current: Mutex<Option<RunningWork>>,
}

#[derive(Debug)]
struct RunningWork {
    /// The address of the writer's connection. It does not move while the work runs, so it
    /// identifies the connection.
    address: usize,
    wakes: WakeSet,
}

impl PostCommitWakes {
    /// Called before the writer runs the user's work.
    pub(crate) fn enter(&self, connection: &Connection) {
        *self.lock() = Some(RunningWork { address: address(connection), wakes: WakeSet::default() });
    }

    /// Called after the work has run. Returns the wake-ups to publish if the transaction commits.
    pub(crate) fn leave(&self) -> Vec<Wake> {
        self.lock().take().map(|mut work| work.wakes.take()).unwrap_or_default()
    }

    /// Whether the writer runs the user's work on this very connection.
    pub(crate) fn is_running_on(&self, connection: &Connection) -> bool {
        self.lock().as_ref().is_some_and(|work| work.address == address(connection))
    }

    /// Keeps the wake-ups if the writer's work caused them on this connection. Returns them
    /// otherwise: only the user knows whether the transaction commits.
    pub(crate) fn keep(&self, connection: &Connection, mut wakes: WakeSet) -> PendingWakes {
        let mut current = self.lock();
        match current.as_mut().filter(|work| work.address == address(connection)) {
            Some(work) => wakes.take().into_iter().for_each(|wake| work.wakes.add(wake)),
            None => return PendingWakes(wakes),
        }
        PendingWakes::default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningWork>> {
        // Nothing in here can panic in the middle of a change.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(connection: &Connection) -> usize {
    std::ptr::from_ref(connection).addr()
}
