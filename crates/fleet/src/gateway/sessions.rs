//! The session table: the sessions a gateway holds, and what the store has not learned yet.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill_core::Timestamp;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::fleet::Attached;
use tokio::sync::{Notify, oneshot};

use super::shared::GatewayShared;
use crate::net::Traffic;

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Its end was requested.
    Closed,
    /// Another holder has the session.
    Lost,
    /// Another connection took it over.
    TakenOver,
}

/// The properties of a session, as the store records them.
#[derive(Debug, Clone)]
pub(crate) struct SessionSpec {
    pub(crate) worker: WorkerKey,
    pub(crate) keep: Duration,
    pub(crate) detail: Bytes,
    pub(crate) started_at: Timestamp,
    /// When its longest duration ends.
    pub(crate) deadline: Option<Instant>,
}

impl SessionSpec {
    /// How long it may outlive its connection from now on: never beyond its deadline.
    pub(crate) fn remaining_keep(&self) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(self.keep, |left| left.min(self.keep))
    }
}

/// Whether a session has a client.
#[derive(Debug)]
pub(crate) enum ConnectionState {
    Connected {
        /// Closes the connection.
        close: Option<oneshot::Sender<CloseReason>>,
        traffic: Arc<Traffic>,
        /// Receives the result of the attach, for a client that takes the session over.
        attach_result: Option<oneshot::Sender<Attached>>,
    },
    /// No client; one may reconnect until then.
    Kept(Instant),
}

/// A session of this gateway.
#[derive(Debug)]
pub(crate) struct HeldSession {
    /// Distinguishes this connection of the session from earlier ones.
    pub(crate) generation: u64,
    pub(crate) spec: SessionSpec,
    pub(crate) connection: ConnectionState,
    /// Whether the store has answered an attach of this connection.
    pub(crate) attach_confirmed: bool,
    /// Whether an attach of this connection was sent, answered or not.
    pub(crate) attach_sent: bool,
    /// Whether a wake-up named it since the last attach.
    pub(crate) needs_recheck: bool,
}

impl HeldSession {
    /// Whether the store must know the session, so that an unknown one has been ended.
    ///
    /// This holds when a client takes a session over. Otherwise it holds only for a connection
    /// whose attach is not confirmed: for its first attach, or after a wake-up. Without a wake-up,
    /// a store that did not answer the first attach may have lost its data. It never holds for a
    /// kept session.
    pub(crate) fn must_exist(&self) -> bool {
        match &self.connection {
            ConnectionState::Connected { attach_result: Some(_), .. } => true,
            ConnectionState::Connected { .. } => {
                !self.attach_confirmed && (!self.attach_sent || self.needs_recheck)
            }
            ConnectionState::Kept(_) => false,
        }
    }
}

/// All sessions, and what the store has not learned yet.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    pub(crate) held: HashMap<SessionId, HeldSession>,
    /// Sessions to attach at once.
    pub(crate) urgent: HashSet<SessionId>,
    /// Sessions that wake-ups have named since the last recheck.
    pub(crate) recheck: HashSet<SessionId>,
    /// When the last recheck was sent.
    pub(crate) rechecked_at: Option<Instant>,
    /// Sessions to release.
    pub(crate) pending_releases: Vec<SessionId>,
    /// All sessions should be rechecked soon: a wake-up may have been lost.
    pub(crate) recheck_all: bool,
    last_generation: u64,
}

/// The session table behind its lock.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<SessionTable>,
    changed: Notify,
}

impl Sessions {
    pub(crate) fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when there is something to send.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Wakes the renewal task.
    pub(crate) fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// Inserts a session in place of an earlier connection of it. Returns its generation.
    pub(crate) fn insert(&self, session: &SessionId, spec: SessionSpec, connection: ConnectionState) -> u64 {
        let mut table = self.table();
        table.last_generation += 1;
        let generation = table.last_generation;
        // The session was taken back before its release was sent.
        table.pending_releases.retain(|release| release != session);
        // The store knows a freshly leased session as not connected already.
        if matches!(connection, ConnectionState::Connected { .. }) {
            table.urgent.insert(session.clone());
        }
        // A client that reconnects takes over a session that the store knows.
        let attach_confirmed = !matches!(connection, ConnectionState::Connected { attach_result: None, .. });
        let held = HeldSession {
            generation,
            spec,
            connection,
            attach_confirmed,
            attach_sent: false,
            needs_recheck: false,
        };
        if let Some(mut previous) = table.held.insert(session.clone(), held) {
            previous.close_connection(CloseReason::TakenOver);
        }
        drop(table);
        self.notify_changed();
        generation
    }

    /// Ends a connection. The session is kept if its client asked for that and it may be.
    pub(crate) fn disconnect(&self, session: &SessionId, generation: u64, may_keep: bool) {
        let mut table = self.table();
        let Some(held) = table.held.get_mut(session).filter(|held| held.generation == generation) else {
            return;
        };
        let keep = held.spec.remaining_keep();
        if may_keep && !keep.is_zero() {
            held.connection = ConnectionState::Kept(Instant::now() + keep);
            table.urgent.insert(session.clone());
            table.recheck.remove(session);
        } else {
            table.end(session);
        }
        drop(table);
        self.changed.notify_one();
    }

    /// Releases a waiter or a session that nobody uses.
    pub(crate) fn release(&self, session: &SessionId) {
        self.table().pending_releases.push(session.clone());
        self.changed.notify_one();
    }

    /// Rechecks a session that a wake-up named. Anyone may publish a wake-up, so the store is
    /// asked, at a limited rate.
    ///
    /// Kept sessions are not rechecked: an attach would insert one again that has been ended, and a
    /// reconnecting client asks the store anyway.
    pub(crate) fn recheck(&self, session: &SessionId) {
        let mut table = self.table();
        let held = table.held.get_mut(session);
        let Some(held) = held.filter(|held| matches!(held.connection, ConnectionState::Connected { .. }))
        else {
            return;
        };
        held.needs_recheck = true;
        table.recheck.insert(session.clone());
        drop(table);
        self.changed.notify_one();
    }

    /// Rechecks all sessions: a wake-up may have been lost.
    pub(crate) fn recheck_all(&self) {
        self.table().recheck_all = true;
        self.changed.notify_one();
    }

    /// How many sessions have a client, and the bytes they sent to browsers and clients.
    pub(crate) fn totals(&self) -> (u64, (u64, u64)) {
        let table = self.table();
        let connected = table.held.values().filter_map(|held| match &held.connection {
            ConnectionState::Connected { traffic, .. } => Some(traffic.bytes()),
            ConnectionState::Kept(_) => None,
        });
        connected.fold((0, (0, 0)), |(open, sum), bytes| (open + 1, (sum.0 + bytes.0, sum.1 + bytes.1)))
    }
}

impl SessionTable {
    /// Ends a session and queues its release.
    pub(crate) fn end(&mut self, session: &SessionId) {
        self.urgent.remove(session);
        if self.held.remove(session).is_some() {
            self.pending_releases.push(session.clone());
        }
    }

    /// Queues releases that failed, except those of sessions taken back meanwhile.
    pub(crate) fn requeue_releases<'a>(&mut self, sessions: impl Iterator<Item = &'a SessionId>) {
        self.pending_releases.extend(sessions.filter(|session| !self.held.contains_key(*session)).cloned());
    }
}

impl HeldSession {
    /// Closes the connection, if there is one.
    pub(crate) fn close_connection(&mut self, reason: CloseReason) {
        if let ConnectionState::Connected { close, .. } = &mut self.connection
            && let Some(close) = close.take()
        {
            // The connection may have ended by itself.
            let _ = close.send(reason);
        }
    }
}

/// A connection's hold on its session. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    shared: Arc<GatewayShared>,
    pub(crate) session: SessionId,
    generation: u64,
    may_keep: bool,
}

impl ConnectionGuard {
    pub(crate) fn new(shared: Arc<GatewayShared>, session: SessionId, generation: u64) -> Self {
        Self { shared, session, generation, may_keep: true }
    }

    /// Ends the session for good, even if it asked to be kept.
    pub(crate) fn end_session(mut self) {
        self.may_keep = false;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.sessions.disconnect(&self.session, self.generation, self.may_keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SessionSpec {
        SessionSpec {
            worker: "chromium:a".parse().unwrap(),
            keep: Duration::from_secs(60),
            detail: Bytes::new(),
            started_at: Timestamp(0),
            deadline: None,
        }
    }

    #[test]
    fn a_wake_up_about_a_kept_session_decides_nothing() {
        let (sessions, session) = (Sessions::default(), SessionId::generate());
        let connected =
            ConnectionState::Connected { close: None, traffic: Arc::default(), attach_result: None };
        let generation = sessions.insert(&session, spec(), connected);
        sessions.recheck(&session);
        sessions.disconnect(&session, generation, true);
        // The store is told that it is kept. A store that has lost its data inserts it again,
        // whatever was published.
        sessions.recheck(&session);
        let table = sessions.table();
        assert!(table.urgent.contains(&session) && table.recheck.is_empty());
        assert!(!table.held[&session].must_exist());
    }

    #[test]
    fn a_session_that_is_taken_back_is_not_over() {
        let (sessions, session) = (Sessions::default(), SessionId::generate());
        let kept = || ConnectionState::Kept(Instant::now());
        sessions.insert(&session, spec(), kept());
        sessions.table().end(&session);
        assert_eq!(sessions.table().pending_releases, std::slice::from_ref(&session));
        sessions.insert(&session, spec(), kept());
        assert!(sessions.table().pending_releases.is_empty());
        // Nor if its release was in flight.
        sessions.table().requeue_releases([&session].into_iter());
        assert!(sessions.table().pending_releases.is_empty());
    }
}
