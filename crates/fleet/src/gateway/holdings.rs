//! The sessions a gateway holds, and what the store is yet to be told of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill_core::Timestamp;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::fleet::Attached;
use tokio::sync::{Notify, oneshot};

use super::desk::Desk;
use crate::wire::Traffic;

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Somebody asked for it.
    Closed,
    /// The session is another's.
    Lost,
    /// Another connection took it over.
    TakenOver,
}

/// What a session is, as the store is told.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) member: WorkerKey,
    pub(crate) keep: Duration,
    pub(crate) detail: Bytes,
    pub(crate) started_at: Timestamp,
    /// When it has lasted for as long as it may.
    pub(crate) ends: Option<Instant>,
}

impl Terms {
    /// For how long it outlives its connection from now on: never beyond its end.
    pub(crate) fn keep(&self) -> Duration {
        let left = self.ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        left.map_or(self.keep, |left| left.min(self.keep))
    }
}

/// Whether a client is there.
#[derive(Debug)]
pub(crate) enum Stay {
    Connected {
        /// Closes the connection.
        cut: Option<oneshot::Sender<Cut>>,
        traffic: Arc<Traffic>,
        /// Who waits to hear whether the store agrees: a client that takes the session over.
        verdict: Option<oneshot::Sender<Attached>>,
    },
    /// Nobody is, and until then somebody may come back.
    Kept(Instant),
}

/// One session.
#[derive(Debug)]
pub(crate) struct Held {
    /// Tells this connection of the session from an earlier one.
    pub(crate) turn: u64,
    pub(crate) terms: Terms,
    pub(crate) stay: Stay,
    /// Whether the store has heard of this connection.
    pub(crate) known: bool,
    /// Whether it has been told of it, heard or not.
    pub(crate) told: bool,
    /// Whether a wake-up has named it since the store was asked last.
    pub(crate) doubted: bool,
}

impl Held {
    /// Whether the store must know the session, so that one it does not know has been ended. Not of a session that was
    /// attached before, nor, without a wake-up, of one whose first attach failed: that store may have lost its data. Of a
    /// session that is kept only when a client takes it over.
    pub(crate) fn must_exist(&self) -> bool {
        match &self.stay {
            Stay::Connected { verdict: Some(_), .. } => true,
            Stay::Connected { .. } => !self.known && (!self.told || self.doubted),
            Stay::Kept(_) => false,
        }
    }
}

/// All sessions, and what the store is yet to be told.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) held: HashMap<SessionId, Held>,
    /// Those of which the store must hear at once.
    pub(crate) urgent: HashSet<SessionId>,
    /// Those that wake-ups have named since the store was asked about such sessions.
    pub(crate) named: HashSet<SessionId>,
    /// When that was.
    pub(crate) asked: Option<Instant>,
    /// Those that are over.
    pub(crate) over: Vec<SessionId>,
    /// All should be looked at soon: something may have been missed.
    pub(crate) doubted: bool,
    turns: u64,
}

/// Where the sessions are.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    book: Mutex<Book>,
    changed: Notify,
}

impl Holdings {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when there is something to tell.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// There is something to tell.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Enters a session, in the place of an earlier connection of it. Answers with the turn it has.
    pub(crate) fn enter(&self, session: &SessionId, terms: Terms, stay: Stay) -> u64 {
        let mut book = self.book();
        book.turns += 1;
        let turn = book.turns;
        // It has been taken back before the store heard that it was over.
        book.over.retain(|over| over != session);
        // A session that was only just leased is known to the store as it is: not connected.
        if matches!(stay, Stay::Connected { .. }) {
            book.urgent.insert(session.clone());
        }
        // Whoever comes back to a session comes back to one that the store knows.
        let known = !matches!(stay, Stay::Connected { verdict: None, .. });
        let held = Held { turn, terms, stay, known, told: false, doubted: false };
        if let Some(mut before) = book.held.insert(session.clone(), held) {
            before.cut(Cut::TakenOver);
        }
        drop(book);
        self.look_again();
        turn
    }

    /// A connection is over. The session is kept if it asked for that and may.
    pub(crate) fn leave(&self, session: &SessionId, turn: u64, may_keep: bool) {
        let mut book = self.book();
        let Some(held) = book.held.get_mut(session).filter(|held| held.turn == turn) else { return };
        let keep = held.terms.keep();
        if may_keep && !keep.is_zero() {
            held.stay = Stay::Kept(Instant::now() + keep);
            book.urgent.insert(session.clone());
            book.named.remove(session);
        } else {
            book.end(session);
        }
        drop(book);
        self.changed.notify_one();
    }

    /// A place, in a line or at a browser, is not wanted any more.
    pub(crate) fn give_up(&self, session: &SessionId) {
        self.book().over.push(session.clone());
        self.changed.notify_one();
    }

    /// A wake-up says that a session is to end, or is another's. Anyone may publish one, so the store is asked: soon, and not
    /// once for each. Not about a session that is kept: an attach would enter it again if it has been ended, and a client that
    /// comes back asks the store anyway.
    pub(crate) fn ask_about(&self, session: &SessionId) {
        let mut book = self.book();
        let held = book.held.get_mut(session);
        let Some(held) = held.filter(|held| matches!(held.stay, Stay::Connected { .. })) else { return };
        held.doubted = true;
        book.named.insert(session.clone());
        drop(book);
        self.changed.notify_one();
    }

    /// Something may have been missed.
    pub(crate) fn doubt(&self) {
        self.book().doubted = true;
        self.changed.notify_one();
    }

    /// How many sessions have a client, and how many bytes have gone to their browsers and clients.
    pub(crate) fn totals(&self) -> (u64, (u64, u64)) {
        let book = self.book();
        let connected = book.held.values().filter_map(|held| match &held.stay {
            Stay::Connected { traffic, .. } => Some(traffic.bytes()),
            Stay::Kept(_) => None,
        });
        connected.fold((0, (0, 0)), |(open, sum), bytes| (open + 1, (sum.0 + bytes.0, sum.1 + bytes.1)))
    }
}

impl Book {
    /// A session is over, and the store is to be told.
    pub(crate) fn end(&mut self, session: &SessionId) {
        self.urgent.remove(session);
        if self.held.remove(session).is_some() {
            self.over.push(session.clone());
        }
    }

    /// The store has not heard that these are over. It need not hear of those that have been taken back.
    pub(crate) fn still_over<'a>(&mut self, sessions: impl Iterator<Item = &'a SessionId>) {
        self.over.extend(sessions.filter(|session| !self.held.contains_key(*session)).cloned());
    }
}

impl Held {
    /// Closes the connection, if there is one.
    pub(crate) fn cut(&mut self, why: Cut) {
        if let Stay::Connected { cut, .. } = &mut self.stay
            && let Some(cut) = cut.take()
        {
            // It may have ended by itself.
            let _ = cut.send(why);
        }
    }
}

/// A connection's claim on its session; when it is dropped, the connection is over.
#[derive(Debug)]
pub(crate) struct Hold {
    desk: Arc<Desk>,
    pub(crate) session: SessionId,
    turn: u64,
    may_keep: bool,
}

impl Hold {
    pub(crate) fn new(desk: Arc<Desk>, session: SessionId, turn: u64) -> Self {
        Self { desk, session, turn, may_keep: true }
    }

    /// It ends for good, even if it asked to be kept.
    pub(crate) fn end(mut self) {
        self.may_keep = false;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.desk.holdings.leave(&self.session, self.turn, self.may_keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            member: "chromium:a".parse().unwrap(),
            keep: Duration::from_secs(60),
            detail: Bytes::new(),
            started_at: Timestamp(0),
            ends: None,
        }
    }

    #[test]
    fn a_wake_up_about_a_kept_session_decides_nothing() {
        let (holdings, session) = (Holdings::default(), SessionId::generate());
        let connected = Stay::Connected { cut: None, traffic: Arc::default(), verdict: None };
        let turn = holdings.enter(&session, terms(), connected);
        holdings.ask_about(&session);
        holdings.leave(&session, turn, true);
        // The store is told that it is kept. One that has lost its data enters it again, whatever was published.
        holdings.ask_about(&session);
        let book = holdings.book();
        assert!(book.urgent.contains(&session) && book.named.is_empty());
        assert!(!book.held[&session].must_exist());
    }

    #[test]
    fn a_session_that_is_taken_back_is_not_over() {
        let (holdings, session) = (Holdings::default(), SessionId::generate());
        let kept = || Stay::Kept(Instant::now());
        holdings.enter(&session, terms(), kept());
        holdings.book().end(&session);
        assert_eq!(holdings.book().over, std::slice::from_ref(&session));
        holdings.enter(&session, terms(), kept());
        assert!(holdings.book().over.is_empty());
        // Nor if the store was being told.
        holdings.book().still_over([&session].into_iter());
        assert!(holdings.book().over.is_empty());
    }
}
