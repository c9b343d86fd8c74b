//! The session table: the sessions that are held, and what the store has not learned yet.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::fleet::{Attached, ReleaseParams};
use tidemill_core::{HolderId, Timestamp};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::LeaseClient;
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

/// Tells a connection that it must close, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct CloseSignal {
    requested: CancellationToken,
    reason: Arc<OnceLock<CloseReason>>,
}

impl CloseSignal {
    /// Cancelled when the connection must close.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.requested
    }

    /// Completes when the connection must close.
    pub(crate) async fn requested(&self) -> CloseReason {
        self.requested.cancelled().await;
        self.reason.get().copied().unwrap_or(CloseReason::Lost)
    }

    /// Closes the connection, unless it is closing already.
    fn close(&self, reason: CloseReason) {
        let _ = self.reason.set(reason);
        self.requested.cancel();
    }
}

/// The properties of a session, as the store records them.
#[derive(Debug, Clone)]
pub(crate) struct SessionSpec {
    pub(crate) holder: HolderId,
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
        close: CloseSignal,
        traffic: Arc<Traffic>,
        /// Receives the result of the attach, for a client that takes the session over.
        attach_result: Option<oneshot::Sender<Attached>>,
    },
    /// No client; one may reconnect until then.
    Kept(Instant),
}

/// A session in the table.
#[derive(Debug)]
pub(crate) struct SessionEntry {
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

impl SessionEntry {
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
    pub(crate) held: HashMap<SessionId, SessionEntry>,
    /// Sessions to attach at once.
    pub(crate) urgent: HashSet<SessionId>,
    /// Sessions that wake-ups have named since the last recheck.
    pub(crate) recheck: HashSet<SessionId>,
    /// When the last recheck was sent.
    pub(crate) rechecked_at: Option<Instant>,
    /// Sessions and waiters to release.
    pub(crate) pending_releases: Vec<ReleaseParams>,
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
        table.pending_releases.retain(|release| release.session != *session);
        // The store knows a freshly leased session as not connected already.
        if matches!(connection, ConnectionState::Connected { .. }) {
            table.urgent.insert(session.clone());
        }
        // A client that reconnects takes over a session that the store knows.
        let attach_confirmed = !matches!(connection, ConnectionState::Connected { attach_result: None, .. });
        let entry = SessionEntry {
            generation,
            spec,
            connection,
            attach_confirmed,
            attach_sent: false,
            needs_recheck: false,
        };
        if let Some(previous) = table.held.insert(session.clone(), entry) {
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
    pub(crate) fn release(&self, release: ReleaseParams) {
        self.table().pending_releases.push(release);
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
        if let Some(ended) = self.held.remove(session) {
            let (session, holder) = (session.clone(), ended.spec.holder);
            self.pending_releases.push(ReleaseParams { session, holder });
        }
    }

    /// Queues releases that failed, except those of sessions taken back meanwhile.
    pub(crate) fn requeue_releases(&mut self, releases: &[ReleaseParams]) {
        let is_over = |release: &&ReleaseParams| !self.held.contains_key(&release.session);
        self.pending_releases.extend(releases.iter().filter(is_over).cloned());
    }
}

impl SessionEntry {
    /// Closes the connection, if there is one.
    pub(crate) fn close_connection(&self, reason: CloseReason) {
        if let ConnectionState::Connected { close, .. } = &self.connection {
            close.close(reason);
        }
    }
}

/// A connection's hold on its session. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct HeldSession {
    client: Arc<LeaseClient>,
    pub(crate) session: SessionId,
    generation: u64,
    may_keep: bool,
}

impl HeldSession {
    /// Holds a session that has a connection.
    pub(crate) fn new(
        client: &Arc<LeaseClient>,
        session: SessionId,
        spec: SessionSpec,
        connection: ConnectionState,
    ) -> Self {
        let generation = client.sessions.insert(&session, spec, connection);
        Self { client: client.clone(), session, generation, may_keep: true }
    }

    /// Ends the session for good, even if it asked to be kept.
    pub(crate) fn end_session(mut self) {
        self.may_keep = false;
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        self.client.sessions.disconnect(&self.session, self.generation, self.may_keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SessionSpec {
        SessionSpec {
            holder: HolderId::from_process("gateway", 1, 0),
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
        let connected = ConnectionState::Connected {
            close: CloseSignal::default(),
            traffic: Arc::default(),
            attach_result: None,
        };
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
        let releases = std::mem::take(&mut sessions.table().pending_releases);
        assert_eq!(releases[0].session, session);
        sessions.table().requeue_releases(&releases);
        assert_eq!(sessions.table().pending_releases.len(), 1);
        sessions.insert(&session, spec(), kept());
        assert!(sessions.table().pending_releases.is_empty());
        // Nor if its release was in flight.
        sessions.table().requeue_releases(&releases);
        assert!(sessions.table().pending_releases.is_empty());
    }
}
