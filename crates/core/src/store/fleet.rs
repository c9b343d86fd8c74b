//! The fleet contract: registration of workers, and leases on them.
//!
//! All data of the fleet is in one shard, so that choosing a worker is one atomic operation. A
//! session is a lease: it lasts until a time of the store's clock, and its holder extends it. A
//! worker's load is the number of its sessions. No counter is kept, so nothing leaks when a holder
//! dies.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Error, Page};
use crate::clock::Timestamp;
use crate::fleet::{Capacity, Offer, SessionId, WorkerDefaults, WorkerKey, WorkerKind};
use crate::name::HolderId;

/// The longest endpoint, in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 2048;

/// The longest detail of a worker or a session, in bytes of JSON.
pub const MAX_DETAIL_BYTES: usize = 8192;

/// How many workers a lease request may reject. The rejections of waiting clients are stored, and
/// other requests read them.
pub const MAX_REJECTED_WORKERS: usize = 16;

/// How long an order to a worker is valid without a response.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// The fleet part of a store.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Registers workers: available and without sessions. Everything of an earlier worker with the
    /// same id is removed: its sessions, its lifetime count and orders. Publishes
    /// [`Wake::Capacity`](super::Wake::Capacity).
    async fn join(&self, workers: &[WorkerEntry]) -> Result<(), Error>;

    /// Reports that workers are alive, with their complete descriptions. Returns orders, one per
    /// worker, in order.
    ///
    /// A worker that the store does not know, because it lost its data or considered the worker
    /// dead, is registered and keeps its sessions. It gets no new session for `grace`, in which
    /// holders can report theirs by [`attach`](Self::attach). Its lifetime count stays.
    ///
    /// The same applies to a known worker whose last beat is too old: while the store was down, no
    /// lease could be extended, so expired sessions may still be in use. It also applies to a
    /// worker without a beat since the store may have lost data, by a crash or a failover to a
    /// replica. Until its next beat such a worker gets no session.
    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error>;

    /// Removes workers with all their data. Unknown workers are ignored.
    async fn part(&self, workers: &[WorkerKey]) -> Result<(), Error>;

    /// Leases a worker for a session, or adds the session to the wait list.
    ///
    /// A worker is eligible if it has the kind and one of the offers, is available, has no order,
    /// has a recent beat and free capacity, is past its grace period, and is not in `rejected`.
    /// Among these, workers that [`Capacity::is_preferred`] prefers come first, for the number of
    /// available workers of the kind and offers with a recent beat, including full ones and those
    /// in their grace period. Of the preferred workers the one with the highest lifetime count is
    /// chosen, then the one with the fewest sessions. If none is preferred, any eligible one is
    /// chosen. A worker without a lifetime limit is always preferred.
    ///
    /// Waiting sessions are served in order, per kind and first offer, whichever process asks for
    /// them. A session gets no worker that an earlier one in its list could use, which is any worker
    /// that the earlier one's latest call did not reject. So with earlier sessions waiting, it gets
    /// a worker that all of them have rejected, or none. A session that has rejected all free
    /// workers therefore blocks nobody. A position in the list, with its rejections, lasts for
    /// `wait.ttl` from the last call. If a worker is leased while others wait,
    /// [`Wake::Capacity`](super::Wake::Capacity) is published, so that the next one calls again.
    ///
    /// A session that has a worker gets the same one, and its lease is extended: a repeated call
    /// leases no second worker. If that worker is in `rejected`, it is released and another one is
    /// chosen. The session has had its turn, so it waits behind nobody; if no worker is free, it
    /// goes to the head of the list. The first call sets the session's `detail` and `keep`.
    ///
    /// If this session exhausts the worker's lifetime, [`Wake::Worker`](super::Wake::Worker) is
    /// published: its owner can start the next worker while this one still serves.
    ///
    /// # Errors
    /// [`Error::Invalid`] if [`LeaseParams::check`] fails.
    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error>;

    /// Reports the sessions of holders: each lease lasts for `ttl` from now, or `keep` if that is
    /// longer. Returns one result per session, in order.
    ///
    /// A session that the store does not know is added as its holder describes it, unless its
    /// worker is known and full without it. So sessions survive the loss of the store's data, and
    /// no limit is exceeded. With `must_exist` it is not added: it has been ended. A session of
    /// another holder is [`Attached::Lost`], unless it is taken over (`take_over`) or has no
    /// connected client.
    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error>;

    /// Ends sessions, or removes them from a wait list, if `holder` holds them. Returns for each
    /// whether there was one. Publishes [`Wake::Worker`](super::Wake::Worker) for the worker's
    /// owner, and [`Wake::Capacity`](super::Wake::Capacity) if sessions wait. A worker whose
    /// lifetime is exhausted is ordered to drain.
    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error>;

    /// Asks the holder of a session to end it: by [`Wake::Session`](super::Wake::Session) at once,
    /// and by [`Attached::Closing`] at the latest. A session without a connected client is ended
    /// immediately. Returns whether it existed.
    async fn close(&self, session: &SessionId) -> Result<bool, Error>;

    /// Orders a worker to drain: to take no more sessions, to stop when it has none, and to leave.
    /// From now on it gets no session. The order is valid for [`ORDER_TIMEOUT`]. The worker is
    /// notified by [`Wake::Worker`](super::Wake::Worker) and by the result of its next beat, and
    /// confirms with its status. Returns whether it existed.
    async fn drain(&self, worker: &WorkerKey) -> Result<bool, Error>;

    /// Removes dead workers with their sessions, expired sessions, and expired positions in wait
    /// lists. A bounded number; any number of processes may call it concurrently.
    ///
    /// With `defaults` it also registers workers that other programs added by the documented keys,
    /// with these values; with `None` it registers none. The values of a known worker do not
    /// change; only a lease may apply other defaults.
    async fn reap(&self, defaults: Option<WorkerDefaults>) -> Result<Reaped, Error>;

    /// Looks up one worker.
    async fn get_worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error>;

    /// A page of workers, of one kind or all, in a stable order.
    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error>;

    /// Looks up one session that has a worker.
    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error>;

    /// A page of sessions that have a worker, in a stable order.
    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error>;

    /// The wait lists that are not empty.
    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error>;
}

/// A worker as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEntry {
    /// The key.
    pub id: WorkerKey,
    /// The protocol it speaks.
    pub offer: Offer,
    /// The address; empty for a worker without clients. At most [`MAX_ENDPOINT_BYTES`] bytes.
    pub endpoint: String,
    /// Whether it takes new sessions.
    pub status: WorkerStatus,
    /// How many sessions it accepts; `concurrent` is 0 for a worker without clients.
    pub capacity: Capacity,
    /// How long after its last beat it counts as dead.
    pub beat_timeout: Duration,
    /// Further information: a JSON object of at most [`MAX_DETAIL_BYTES`] bytes.
    pub detail: Bytes,
}

impl WorkerEntry {
    /// Checks the size limits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the endpoint or the detail is too long.
    pub fn check(&self) -> Result<(), Error> {
        if self.endpoint.len() > MAX_ENDPOINT_BYTES {
            let violation = format!("is longer than {MAX_ENDPOINT_BYTES} bytes");
            return Err(Error::Invalid(format!("the endpoint of worker {} {violation}", self.id)));
        }
        check_detail(&self.detail, &self.id)
    }
}

/// Checks the size of a detail.
fn check_detail(detail: &Bytes, owner: &dyn std::fmt::Display) -> Result<(), Error> {
    if detail.len() <= MAX_DETAIL_BYTES {
        return Ok(());
    }
    Err(Error::Invalid(format!("the detail of {owner} is longer than {MAX_DETAIL_BYTES} bytes")))
}

/// Whether a worker accepts new sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// It accepts sessions.
    Available,
    /// It accepts none and stops when its last one ends.
    Draining,
}

/// Workers that are alive.
#[derive(Debug)]
pub struct BeatParams<'a> {
    /// Their complete descriptions.
    pub workers: &'a [WorkerEntry],
    /// How long a worker that had to be registered again, or whose last beat was too old, gets no
    /// session.
    pub grace: Duration,
}

/// The store's response to a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOrders {
    /// Whether it has to drain.
    pub drain: bool,
    /// The number of its sessions.
    pub active: u32,
    /// The number of sessions in its lifetime, including these.
    pub lifetime: u64,
}

/// A request for a worker.
#[derive(Debug, Clone)]
pub struct LeaseParams {
    /// The session.
    pub session: SessionId,
    /// The kind of worker.
    pub kind: WorkerKind,
    /// The acceptable offers; at least one. The first selects the wait list.
    pub offers: Vec<Offer>,
    /// The holder of the session.
    pub holder: HolderId,
    /// The duration of the lease.
    pub ttl: Duration,
    /// How long the session outlives the client's connection.
    pub keep: Duration,
    /// Information about the session: a JSON object of at most [`MAX_DETAIL_BYTES`] bytes.
    pub detail: Bytes,
    /// Workers that did not respond; at most [`MAX_REJECTED_WORKERS`].
    pub rejected: Vec<WorkerKey>,
    /// Whether and how to wait if no worker is free.
    pub wait: Option<WaitParams>,
    /// Values for workers that do not state them.
    pub defaults: WorkerDefaults,
}

impl LeaseParams {
    /// Checks the limits. Returns the first offer, which selects the wait list.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no offer, or the detail or `rejected` is too long.
    pub fn check(&self) -> Result<&Offer, Error> {
        check_detail(&self.detail, &self.session)?;
        if self.rejected.len() > MAX_REJECTED_WORKERS {
            let violation = format!("refuses more than {MAX_REJECTED_WORKERS} workers");
            return Err(Error::Invalid(format!("session {} {violation}", self.session)));
        }
        let first_offer = self.offers.first();
        first_offer.ok_or_else(|| Error::Invalid(format!("session {} asks for no offer", self.session)))
    }
}

/// How to wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitParams {
    /// The largest length of the wait list, including this session.
    pub max_waiting: u32,
    /// How long the position lasts without another call.
    pub ttl: Duration,
}

/// The result of a lease request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// The session has a worker.
    Granted(Grant),
    /// No worker is free; the session waits.
    Waiting {
        /// How many sessions wait before it; they are served first, unless they rejected a worker.
        ahead: u32,
        /// How many workers of the kind and offers have a recent beat, whatever their status. A
        /// draining worker counts, because its owner replaces it.
        workers: u32,
    },
    /// No worker is free, and the session does not wait: it was not asked to, or the wait list is
    /// full.
    Refused {
        /// The length of the wait list.
        waiting: u32,
        /// How many workers of the kind and offers have a recent beat, whatever their status. A
        /// draining worker counts, because its owner replaces it.
        workers: u32,
    },
}

/// A leased worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The worker.
    pub worker: WorkerKey,
    /// Its address.
    pub endpoint: String,
    /// Its protocol.
    pub offer: Offer,
    /// The end of the lease, unless it is extended.
    pub until: Timestamp,
}

/// A session as its holder describes it.
#[derive(Debug, Clone)]
pub struct AttachParams {
    /// The session.
    pub session: SessionId,
    /// Its worker.
    pub worker: WorkerKey,
    /// Its holder.
    pub holder: HolderId,
    /// The duration of the lease from now.
    pub ttl: Duration,
    /// How long it outlives the client's connection.
    pub keep: Duration,
    /// Whether a client is connected.
    pub connected: bool,
    /// Whether to take it over from another holder.
    pub take_over: bool,
    /// Whether the store must know the session, because the holder has seen it there or has just
    /// leased it. If the store does not know it, or its lease has expired, it has been ended:
    /// [`Attached::Closing`].
    pub must_exist: bool,
    /// Information about the session.
    pub detail: Bytes,
    /// When it began; used if the store does not know it.
    pub started_at: Timestamp,
}

impl AttachParams {
    /// Checks the size limit.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the detail is too long.
    pub fn check(&self) -> Result<(), Error> {
        check_detail(&self.detail, &self.session)
    }
}

/// The state of a session for its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// It is held.
    Held,
    /// Its end was requested, or it has been ended: close the connection and release it.
    Closing,
    /// Another holder has it, or its worker is full: close the connection.
    Lost,
}

/// A session, or a position in a wait list, to end.
#[derive(Debug, Clone)]
pub struct ReleaseParams {
    /// The session.
    pub session: SessionId,
    /// Its holder.
    pub holder: HolderId,
}

/// The result of a reap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// The removed dead workers.
    pub workers: Vec<WorkerKey>,
    /// The number of removed sessions: expired, or of dead workers.
    pub sessions: u64,
    /// The number of removed positions in wait lists.
    pub waiting: u64,
    /// Registered workers of other programs.
    pub found: Vec<WorkerKey>,
    /// Entries of other programs that are not workers. Every reap reports them.
    pub unusable: Vec<UnusableEntry>,
}

/// An entry of another program that is not a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableEntry {
    /// Its name.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// Which workers to list.
#[derive(Debug)]
pub struct ListWorkersParams<'a> {
    /// The kind; all if `None`.
    pub kind: Option<&'a WorkerKind>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// The largest number of workers.
    pub limit: usize,
}

/// The store's information about a worker.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    /// Its last description.
    pub worker: WorkerEntry,
    /// The time of its last beat.
    pub last_beat: Timestamp,
    /// Whether its last beat is recent enough.
    pub is_fresh: bool,
    /// Whether it was ordered to drain.
    pub drain_ordered: bool,
    /// The number of its sessions.
    pub active: u32,
    /// The number of sessions in its lifetime, including these.
    pub lifetime: u64,
}

/// Which sessions to list.
#[derive(Debug)]
pub struct ListSessionsParams<'a> {
    /// The worker; all if `None`.
    pub worker: Option<&'a WorkerKey>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// The largest number of sessions.
    pub limit: usize,
}

/// The store's information about a session.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The session.
    pub session: SessionId,
    /// Its worker.
    pub worker: WorkerKey,
    /// The worker's address; empty if the worker is gone.
    pub endpoint: String,
    /// The worker's protocol, if the worker exists.
    pub offer: Option<Offer>,
    /// Its holder.
    pub holder: HolderId,
    /// Whether a client is connected.
    pub connected: bool,
    /// Whether its end was requested.
    pub closing: bool,
    /// How long it outlives its connection.
    pub keep: Duration,
    /// When it began.
    pub started_at: Timestamp,
    /// The end of its lease, unless it is extended.
    pub until: Timestamp,
    /// Information about the session.
    pub detail: Bytes,
}

/// A wait list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WaitingInfo {
    /// The kind of worker.
    pub kind: WorkerKind,
    /// The first offer of its sessions.
    pub offer: Offer,
    /// Its length.
    pub waiting: u32,
}
