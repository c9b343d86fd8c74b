//! What is to be told when a transaction has committed that the user's work is part of.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tidemill_core::wake::{Wake, WakeSet};

/// What a call in a transaction of the user's has led to: to be announced after the commit, and to be dropped if there is
/// none. It is empty inside [`transact`](crate::SqliteStore::transact) and [`done`](crate::SqliteStore::done): what is
/// done there is told when their transaction commits.
#[derive(Debug, Default)]
#[must_use = "workers hear of it at once only if it is announced after the commit"]
pub struct Pending(pub(crate) WakeSet);

/// What the work promises that the writer runs at the moment.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    inside: Mutex<Option<Inside>>,
}

#[derive(Debug)]
struct Inside {
    /// Where the writer's connection is: it stays there while the work runs, and nothing else can be there.
    address: usize,
    news: WakeSet,
}

impl Promises {
    /// The writer begins to run work of the user's.
    pub(crate) fn enter(&self, connection: &Connection) {
        *self.lock() = Some(Inside { address: address(connection), news: WakeSet::default() });
    }

    /// It has run. What it promised comes true if its transaction commits.
    pub(crate) fn leave(&self) -> Vec<Wake> {
        self.lock().take().map(|mut inside| inside.news.take()).unwrap_or_default()
    }

    /// Whether work that the writer runs has been given this very connection.
    pub(crate) fn is_inside(&self, connection: &Connection) -> bool {
        self.lock().as_ref().is_some_and(|inside| inside.address == address(connection))
    }

    /// Keeps what was done on this connection if the writer's work did it, and gives it back if somebody else did: only
    /// they know whether their transaction commits.
    pub(crate) fn keep(&self, connection: &Connection, mut news: WakeSet) -> Pending {
        let mut inside = self.lock();
        match inside.as_mut().filter(|inside| inside.address == address(connection)) {
            Some(inside) => news.take().into_iter().for_each(|wake| inside.news.add(wake)),
            None => return Pending(news),
        }
        Pending::default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inside>> {
        // Nothing in here can panic half-way through a change.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(connection: &Connection) -> usize {
    std::ptr::from_ref(connection).addr()
}
