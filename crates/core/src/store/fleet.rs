//! The verbs of the fleet: who works, and who holds one of them.
//!
//! Everything the fleet has lies in one shard, so that choosing a member is one atomic effect however many servers a
//! store has. A session is a lease: it lasts until a time of the store's clock, and whoever holds it extends it. A
//! member's sessions are counted, never a counter kept, so nothing leaks when a holder dies and nothing goes below zero.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Error, Page};
use crate::clock::Timestamp;
use crate::fleet::{Capacity, Offer, SessionId, WorkerDefaults, WorkerKey, WorkerKind};
use crate::name::HolderId;

/// The longest endpoint, in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 2048;

/// The longest detail of a member or a session, in bytes of JSON.
pub const MAX_DETAIL_BYTES: usize = 8192;

/// How many members a wish may refuse. Whoever waits has its refusals remembered, and others walk them.
pub const MAX_REJECTED_WORKERS: usize = 16;

/// How long an order to a member stands if it does not answer.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// The part of a store that knows the fleet. Every method may be called by any number of tasks and processes at once,
/// and repeated after an unknown end.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Members enter: available, with no sessions, and with nothing of what an earlier one of the same id left (its
    /// sessions, its lifetime, an order to it). Announces the new places by [`Wake::Capacity`](super::Wake::Capacity).
    async fn join(&self, members: &[WorkerEntry]) -> Result<(), Error>;

    /// Members say that they live, and everything about themselves again. One that the store does not know, because it
    /// lost its data or took the member for dead, is entered whole, and keeps the sessions it has; but it is given no new
    /// one for `grace`, in which holders can say what they hold. The same goes for one that the store knows and that has not
    /// beaten for too long: while the store was away nobody could extend a lease, so those that have run out may be held.
    /// And for one that has not beaten since the store may have forgotten something: because it crashed, or a replica took its place,
    /// without the last that was written. Until it does, it is given to nobody. Its lifetime stays. Answers in the members' order.
    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error>;

    /// Members leave, with everything they have. Those that are not there are not missed.
    async fn part(&self, members: &[WorkerKey]) -> Result<(), Error>;

    /// Gives a place to a client, or a place in the line of those who wait for one.
    ///
    /// A member can be given if it is of the kind, has one of the offers, is available and under no order, has beaten
    /// recently, has room, is past its grace and is not among the `refused`. Of those, by [`Capacity::is_preferred`] for the number of
    /// members of the kind and offers that are available and fresh (full ones and those in grace included): the one with the highest lifetime
    /// below its limit less the margin, of equals the one with the fewest sessions; if there is none, any. (A member
    /// without a limit is always below it.)
    ///
    /// Who waits is served first in, first out, per kind and first offer, whoever asks for them: a caller gets no member that
    /// somebody before it in its line could use, which is any that is not among the `refused` of that one's latest call. So
    /// with others before it a caller gets one of those that all of them have refused, chosen as above, or nothing; and
    /// whoever waits for another member than the ones that are free holds up nobody. A place in the line, and what its holder
    /// has refused, lasts for `line.ttl` from the last call. When a place was given and others wait, that is announced, so
    /// that the next asks.
    ///
    /// A session that has a member already is answered with it, and its lease renewed (a repeated call gives no second); if
    /// that member is among the `refused`, it gives that one back and chooses another: it has had its turn, so it stands
    /// behind nobody, and if there is no other place it waits before all others. What a session is (`detail`, `keep`) is
    /// set by the first call.
    ///
    /// A member that is spent with it hears so by [`Wake::Worker`](super::Wake::Worker): its owner can start the next one
    /// while this one still works.
    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error>;

    /// Holders say what they hold: each lease lasts until `ttl`, or `keep` if that is longer, from now. Answers in order.
    ///
    /// A session that the store does not know is entered as the holder describes it, unless its member is known and full
    /// without it: so what runs goes on after the store has lost its data, and no limit is exceeded. With `must_exist` it is
    /// not entered: whoever ended it has ended it. One that
    /// another holds is [`Attached::Lost`], unless it is taken over (`take`), or nobody is connected to it.
    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error>;

    /// Ends sessions, or gives up places in a line. Only those that `holder` has. Announces it by
    /// [`Wake::Worker`](super::Wake::Worker) to the member's owner, and by [`Wake::Capacity`](super::Wake::Capacity) if
    /// somebody waits. A member that is spent is ordered to drain with it. Answers whether there was something to end.
    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error>;

    /// Asks whoever holds a session to end it, by [`Wake::Session`](super::Wake::Session) at once and by
    /// [`Attached::Closing`] at the latest. One that nobody is connected to is ended on the spot. Whether it was there.
    async fn close(&self, session: &SessionId) -> Result<bool, Error>;

    /// Orders a member to take no more sessions, to end when it has none, and to leave: from now on it is given to nobody.
    /// The order stands for [`ORDER_TIMEOUT`]; the member hears of it by [`Wake::Worker`](super::Wake::Worker) and
    /// with its next beat, and says so with its status. Whether it was there.
    async fn drain(&self, member: &WorkerKey) -> Result<bool, Error>;

    /// Removes members that have not beaten, with their sessions, sessions that have run out, and places in line that
    /// nobody asked for. A bounded number; safe everywhere at once.
    ///
    /// With a `standard` it also enters what other programs added by the documented keys, and takes that for granted of
    /// them; with `None` it enters nobody. What is taken for granted of a member that is known already stays as it is,
    /// whoever reaps: only a lease may count by another standard.
    async fn reap(&self, standard: Option<WorkerDefaults>) -> Result<Reaped, Error>;

    /// Looks up one member.
    async fn get_worker(&self, member: &WorkerKey) -> Result<Option<WorkerInfo>, Error>;

    /// A page of members, of one kind or all, in a stable order.
    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error>;

    /// Looks up one session that has a member.
    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error>;

    /// A page of sessions that have a member, in a stable order.
    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error>;

    /// The lines in which somebody waits.
    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error>;
}

/// A member, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEntry {
    /// Who it is.
    pub id: WorkerKey,
    /// How clients speak to it.
    pub offer: Offer,
    /// Where; empty for a member that takes no clients. At most [`MAX_ENDPOINT_BYTES`] bytes.
    pub endpoint: String,
    /// Whether it takes new sessions.
    pub status: WorkerStatus,
    /// How much it takes on. No room at all (`concurrent` 0) if it takes no clients.
    pub capacity: Capacity,
    /// How long after its last beat it is taken for dead.
    pub beat_timeout: Duration,
    /// What else is to be known of it: an object of JSON, at most [`MAX_DETAIL_BYTES`] bytes.
    pub detail: Bytes,
}

impl WorkerEntry {
    /// Whether it is short enough to be kept.
    pub fn check(&self) -> Result<(), Error> {
        if self.endpoint.len() > MAX_ENDPOINT_BYTES {
            let rule = format!("is longer than {MAX_ENDPOINT_BYTES} bytes");
            return Err(Error::Invalid(format!("the endpoint of worker {} {rule}", self.id)));
        }
        short_enough(&self.detail, &self.id)
    }
}

/// Whether a detail is short enough to be kept.
fn short_enough(detail: &Bytes, of: &dyn std::fmt::Display) -> Result<(), Error> {
    if detail.len() <= MAX_DETAIL_BYTES {
        return Ok(());
    }
    Err(Error::Invalid(format!("the detail of {of} is longer than {MAX_DETAIL_BYTES} bytes")))
}

/// Whether a member takes new sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// It does.
    Available,
    /// It ends when it has none any more.
    Draining,
}

/// Members that live.
#[derive(Debug)]
pub struct BeatParams<'a> {
    /// They, whole.
    pub workers: &'a [WorkerEntry],
    /// How long one that had to be entered anew, or had not beaten for too long, is given no session.
    pub grace: Duration,
}

/// What a member has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOrders {
    /// It is to drain.
    pub drain: bool,
    /// How many sessions it has.
    pub active: u32,
    /// How many it has had, these included.
    pub lifetime: u64,
}

/// A wish for a member.
#[derive(Debug, Clone)]
pub struct LeaseParams {
    /// The session it is for.
    pub session: SessionId,
    /// Of this kind.
    pub kind: WorkerKind,
    /// With any of these offers; at least one. The first names the line.
    pub offers: Vec<Offer>,
    /// Who will hold it.
    pub holder: HolderId,
    /// For how long, unless it is extended.
    pub ttl: Duration,
    /// For how long it outlives the holder's connection.
    pub keep: Duration,
    /// What is to be known of it: an object of JSON, at most [`MAX_DETAIL_BYTES`] bytes.
    pub detail: Bytes,
    /// Members that did not answer; at most [`MAX_REJECTED_WORKERS`].
    pub rejected: Vec<WorkerKey>,
    /// Whether to wait in line if there is no place.
    pub wait: Option<WaitParams>,
    /// What is taken for granted of members that do not say.
    pub defaults: WorkerDefaults,
}

impl LeaseParams {
    /// Whether it can be fulfilled at all: it names an offer, and is short enough to be kept. Answers the line.
    pub fn check(&self) -> Result<&Offer, Error> {
        short_enough(&self.detail, &self.session)?;
        if self.rejected.len() > MAX_REJECTED_WORKERS {
            let rule = format!("refuses more than {MAX_REJECTED_WORKERS} workers");
            return Err(Error::Invalid(format!("session {} {rule}", self.session)));
        }
        let line = self.offers.first();
        line.ok_or_else(|| Error::Invalid(format!("session {} asks for no offer", self.session)))
    }
}

/// How to wait.
#[derive(Debug, Clone, Copy)]
pub struct WaitParams {
    /// How many may wait in it, this one included.
    pub max_waiting: u32,
    /// How long the place lasts without asking again.
    pub ttl: Duration,
}

/// What became of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// It has a member.
    Granted(Grant),
    /// There is no place now, and it waits.
    Waiting {
        /// How many are before it, and served first with whatever they have not refused.
        ahead: u32,
        /// How many members of the kind and offers have beaten recently, whatever their status. One that drains
        /// counts: its owner replaces it.
        workers: u32,
    },
    /// There is no place now, and it does not wait: it did not want to, or the line is full.
    Refused {
        /// How many wait.
        waiting: u32,
        /// How many members of the kind and offers have beaten recently, whatever their status. One that drains
        /// counts: its owner replaces it.
        workers: u32,
    },
}

/// A member that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Which.
    pub worker: WorkerKey,
    /// Where it is.
    pub endpoint: String,
    /// How it is spoken to.
    pub offer: Offer,
    /// Until when, unless it is extended.
    pub until: Timestamp,
}

/// A session that is held, as its holder describes it.
#[derive(Debug, Clone)]
pub struct AttachParams {
    /// Which.
    pub session: SessionId,
    /// On which member.
    pub worker: WorkerKey,
    /// Who holds it.
    pub holder: HolderId,
    /// For how long, unless it is extended.
    pub ttl: Duration,
    /// For how long it outlives the connection.
    pub keep: Duration,
    /// Whether a client is connected.
    pub connected: bool,
    /// Takes it over from whoever holds it.
    pub take_over: bool,
    /// Whether the store must know it: the holder has seen it there, or has only just leased it. A session that the store
    /// does not know, or whose time is over, has been ended then, and the answer is [`Attached::Closing`].
    pub must_exist: bool,
    /// What is to be known of it.
    pub detail: Bytes,
    /// When it began; counts if the store does not know it any more.
    pub started_at: Timestamp,
}

impl AttachParams {
    /// Whether it is short enough to be kept.
    pub fn check(&self) -> Result<(), Error> {
        short_enough(&self.detail, &self.session)
    }
}

/// Whether a session is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// It is.
    Held,
    /// Somebody wants it to end, or has ended it: close it and release it.
    Closing,
    /// It is another's, or its place is: the connection must be closed.
    Lost,
}

/// A session, or a place in line, that is over.
#[derive(Debug, Clone)]
pub struct ReleaseParams {
    /// Which.
    pub session: SessionId,
    /// Who held it.
    pub holder: HolderId,
}

/// What was removed, or found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Members that were dead.
    pub workers: Vec<WorkerKey>,
    /// How many sessions had run out, or were those of dead members.
    pub sessions: u64,
    /// How many places in line nobody asked for.
    pub waiting: u64,
    /// Members that another program had entered.
    pub found: Vec<WorkerKey>,
    /// What another program had entered, and what is none. Reported by each reap that finds it.
    pub unusable: Vec<UnusableEntry>,
}

/// An entry of another program that is no member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableEntry {
    /// What it is called.
    pub name: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// Which members to list.
#[derive(Debug)]
pub struct ListWorkersParams<'a> {
    /// Of this kind.
    pub kind: Option<&'a WorkerKind>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A member as the store sees it.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    /// What it said last.
    pub worker: WorkerEntry,
    /// When it said it.
    pub last_beat: Timestamp,
    /// Whether that is recent enough.
    pub is_fresh: bool,
    /// Whether it is ordered to drain.
    pub drain_ordered: bool,
    /// How many sessions it has.
    pub active: u32,
    /// How many it has had, these included.
    pub lifetime: u64,
}

/// Which sessions to list.
#[derive(Debug)]
pub struct ListSessionsParams<'a> {
    /// Of this member.
    pub worker: Option<&'a WorkerKey>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A session as the store sees it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Which.
    pub session: SessionId,
    /// On which member.
    pub worker: WorkerKey,
    /// Where that is; empty if the member is not there any more.
    pub endpoint: String,
    /// How it is spoken to, if the member is there.
    pub offer: Option<Offer>,
    /// Who holds it.
    pub holder: HolderId,
    /// Whether a client is connected.
    pub connected: bool,
    /// Whether somebody wants it to end.
    pub closing: bool,
    /// For how long it outlives its connection.
    pub keep: Duration,
    /// When it began.
    pub started_at: Timestamp,
    /// Until when it lasts, unless it is extended.
    pub until: Timestamp,
    /// What is to be known of it.
    pub detail: Bytes,
}

/// A line in which clients wait.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WaitingInfo {
    /// For this kind.
    pub kind: WorkerKind,
    /// For this offer first of all.
    pub offer: Offer,
    /// How many.
    pub waiting: u32,
}
