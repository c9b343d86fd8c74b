//! What is to be told when a transaction has committed that the user's work is part of.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tidemill_core::store::{News, Wake};

/// What work of the user's has made true, if it commits.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was done in transactions on connections of the user's, until one says that it has committed.
    outside: News,
    /// What the work does that the writer runs at the moment.
    inside: Option<Inside>,
}

#[derive(Debug)]
struct Inside {
    /// Where the writer's connection is: it stays there while the work runs, and nothing else can be there.
    address: usize,
    news: News,
}

impl Promises {
    /// The writer begins to run work of the user's.
    pub(crate) fn enter(&self, connection: &Connection) {
        self.lock().inside = Some(Inside { address: address(connection), news: News::default() });
    }

    /// It has run. What it promised comes true if its transaction commits.
    pub(crate) fn leave(&self) -> Vec<Wake> {
        self.lock().inside.take().map(|mut inside| inside.news.take()).unwrap_or_default()
    }

    /// Whether work that the writer runs has been given this very connection.
    pub(crate) fn is_inside(&self, connection: &Connection) -> bool {
        self.lock().inside.as_ref().is_some_and(|inside| inside.address == address(connection))
    }

    /// Work on this connection has promised something.
    pub(crate) fn note(&self, connection: &Connection, mut news: News) {
        let mut state = self.lock();
        let State { outside, inside } = &mut *state;
        let inside = inside.as_mut().filter(|inside| inside.address == address(connection));
        let noted = inside.map_or(outside, |inside| &mut inside.news);
        news.take().into_iter().for_each(|wake| noted.add(wake));
    }

    /// Everything that was promised on connections of the user's.
    pub(crate) fn take(&self) -> Vec<Wake> {
        self.lock().outside.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(connection: &Connection) -> usize {
    std::ptr::from_ref(connection).addr()
}
