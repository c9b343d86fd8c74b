//! Parameters and answers of the job verbs.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::chain::JobLinks;
use crate::clock::Timestamp;
use crate::envelope::{Envelope, MalformedEnvelope};
use crate::job::JobState;
use crate::lease::Lease;
use crate::name::{HolderId, JobId, Queue};
use crate::settle::Change;

/// A job to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its identity.
    pub id: JobId,
    /// Its envelope.
    pub envelope: Bytes,
    /// When it may run.
    pub due: Due,
    /// Whether it can be found by its id while it waits; the same as its envelope says. An untracked job has
    /// an id made for this very call, is due now, and keeps no result: nobody will ask for it, and a store
    /// may leave it out of its index.
    pub tracked: bool,
    /// Whether the id was made for this very call, so that nothing else can have it.
    pub generated_id: bool,
    /// How it is tied to others.
    pub links: JobLinks,
}

/// What to add.
#[derive(Debug)]
pub struct EnqueueParams<'a> {
    /// Where.
    pub queue: &'a Queue,
    /// What; at most [`MAX_BATCH_JOBS`](crate::limits::MAX_BATCH_JOBS).
    pub jobs: &'a [NewJob],
}

/// When a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After this long, by the store's clock.
    In(Duration),
    /// At this time; at once if it is past.
    At(Timestamp),
}

/// What became of a job that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It is new.
    Created,
    /// A job with this id was there already; nothing changed.
    Exists,
    /// The chain with this id takes its place: it has the same deduplication key. Nothing changed.
    Duplicate(JobId),
}

/// Completes when a waiting claim should give up.
pub type Interrupt<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What to claim.
pub struct ClaimParams<'a> {
    /// From where.
    pub queue: &'a Queue,
    /// For whom.
    pub worker: &'a HolderId,
    /// For how long.
    pub lease: Duration,
    /// How many at most; at least 1.
    pub max: usize,
    /// How many of them start at once; the rest are held.
    pub starting: usize,
    /// How long to wait when there are none.
    pub wait: Duration,
    /// Cuts the waiting short.
    pub interrupt: Interrupt<'a>,
}

impl<'a> ClaimParams<'a> {
    /// Claims up to `max` jobs to start at once, without waiting.
    pub fn now(queue: &'a Queue, worker: &'a HolderId, lease: Duration, max: usize) -> Self {
        let interrupt = Box::pin(pending());
        Self { queue, worker, lease, max, starting: max, wait: Duration::ZERO, interrupt }
    }
}

impl fmt::Debug for ClaimParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, worker, lease, max, starting, wait, .. } = self;
        write!(f, "Claim {{ {queue}, {worker}, {lease:?}, {max}, {starting}, {wait:?} }}")
    }
}

/// A job that was claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The right to run it.
    pub lease: Lease,
    /// Its envelope, or the bytes that should have been one.
    pub body: Result<Envelope, (Bytes, MalformedEnvelope)>,
    /// Whether it counts as started.
    pub started: bool,
}

impl Claimed {
    /// Reads the envelope of a job. `lease` is given the envelope's id.
    pub fn read(data: Bytes, started: bool, lease: impl FnOnce(Option<&JobId>) -> Lease) -> Self {
        match Envelope::read(data.clone()) {
            Ok(envelope) => Self { lease: lease(Some(envelope.id())), body: Ok(envelope), started },
            Err(error) => Self { lease: lease(None), body: Err((data, error)), started },
        }
    }
}

/// Whose unanswered claims to recover.
#[derive(Debug)]
pub struct RecoverParams<'a> {
    /// The queue that was claimed from.
    pub queue: &'a Queue,
    /// The worker that claimed.
    pub worker: &'a HolderId,
    /// For how long.
    pub lease: Duration,
    /// The leases of this queue that the worker has in its hands.
    pub known_leases: &'a HashSet<Lease>,
}

/// Which held jobs to start.
#[derive(Debug)]
pub struct StartParams<'a> {
    /// By whom.
    pub worker: &'a HolderId,
    /// Which.
    pub leases: &'a [Lease],
}

/// Which leases to extend.
#[derive(Debug)]
pub struct ExtendParams<'a> {
    /// By whom.
    pub worker: &'a HolderId,
    /// Which.
    pub leases: &'a [Lease],
    /// By how much from now.
    pub lease: Duration,
}

/// What a lease is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// It is still held, and extended.
    Yes,
    /// It is still held, and extended, but somebody wants the job cancelled.
    Cancelling,
    /// It is lost.
    Lost,
    /// The part of the store that has it failed: it may be extended, or not, or lost. Others of the same call were answered.
    Unknown,
}

/// Whether a fenced effect took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did.
    Accepted,
    /// The lease was not the current one; nothing changed.
    LeaseLost,
    /// The part of the store that has the lease failed: the effect took place, or not, or does so later. The caller asks again.
    /// Only [`settle`](super::Store::settle) and [`rescue`](super::Store::rescue) say so, and only if others of the same call
    /// were answered.
    Unknown,
}

/// Which scheduled jobs to look at.
#[derive(Debug)]
pub struct PromoteParams<'a> {
    /// Of these queues.
    pub queues: &'a [Queue],
    /// How many at most, per queue.
    pub limit: usize,
}

/// What promoting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    /// How many jobs became ready.
    pub moved: u64,
    /// How long until the next one is due; zero if there are more right now.
    pub next: Option<Duration>,
}

/// A step of the store's clock into the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// What the clock would show now had nobody set it back.
    pub from: Timestamp,
    /// From now on no lease lasts longer, until it is extended. Longer than any worker waits between two extensions.
    pub lease_limit: Duration,
}

/// Which expired leases to show.
#[derive(Debug)]
pub struct ListExpiredParams<'a> {
    /// Queues in which a lease of unknown length counts as one of `lease`: other programs may take jobs without
    /// telling for how long. A store that keeps each lease's end ignores both.
    pub queues: &'a [Queue],
    /// How long such a lease is.
    pub lease: Duration,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A page of leases that have run out.
#[derive(Debug, Default)]
pub struct ExpiredLeases {
    /// The leases.
    pub leases: Vec<ExpiredLease>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// What time it was in each shard that was looked at.
    pub shard_times: Vec<(u16, Timestamp)>,
}

/// A lease, seen from outside.
#[derive(Debug, Clone)]
pub struct ExpiredLease {
    /// The job and its lease.
    pub claimed: Claimed,
    /// Who has it.
    pub holder: String,
}

/// What cancelling did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting and is gone.
    Removed,
    /// It is running; its worker has been told.
    Requested,
    /// It had ended already, like this.
    Ended(JobState),
    /// There is no such job.
    NotFound,
}

/// Which job to end from outside, and how.
#[derive(Debug)]
pub struct CompleteParams<'a> {
    /// Which, with its step: one that has moved on to another step is not touched.
    pub job: &'a JobId,
    /// How: [`Change::Finish`] or [`Change::Continue`].
    pub change: &'a Change,
}

/// What completing from outside did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// The job has ended like this. Whoever was running it has lost its lease.
    Yes,
    /// It had ended already, like this; a step that its chain has left behind counts as done.
    Ended(JobState),
    /// There is no such job.
    NotFound,
}

/// What deleting a chain did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, with its job, record, letter and key.
    Yes,
    /// This job waits for it; nothing changed.
    Awaited(JobId),
    /// There is no such chain.
    NotFound,
}

/// Which letters to bring back.
#[derive(Debug)]
pub struct RedriveParams<'a> {
    /// To which queue.
    pub queue: &'a Queue,
    /// Which.
    pub letters: &'a [RedriveItem],
}

/// A letter to bring back.
#[derive(Debug, Clone)]
pub struct RedriveItem {
    /// The job.
    pub job: JobId,
    /// The letter as it was found. A job that has died again since has another one.
    pub letter: Bytes,
    /// The envelope that the job starts anew with.
    pub envelope: Bytes,
}

/// What pruning removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Records of finished jobs whose time is over.
    pub records: u64,
    /// Locks and traces of workers that are gone.
    pub leftovers: u64,
    /// Whether the call has removed as many as one call does, so that there may be more.
    pub more: bool,
}
