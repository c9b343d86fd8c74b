//! Parameters and results of the job verbs.

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
    /// The id.
    pub id: JobId,
    /// The envelope.
    pub envelope: Bytes,
    /// When it may run.
    pub due: Due,
    /// Whether it can be found by its id while it waits; equal to the envelope's field. An
    /// untracked job has a generated id, is due now, and keeps no result. No caller will ask for
    /// it, so a store may omit it from its index.
    pub tracked: bool,
    /// Whether the id was generated for this call, so that no other job has it.
    pub generated_id: bool,
    /// Its relations to chains.
    pub links: JobLinks,
}

/// Which jobs to add.
#[derive(Debug)]
pub struct EnqueueParams<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The jobs; at most [`MAX_BATCH_JOBS`](crate::limits::MAX_BATCH_JOBS).
    pub jobs: &'a [NewJob],
}

/// When a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After this duration, by the store's clock.
    In(Duration),
    /// At this time; at once if it has passed.
    At(Timestamp),
}

/// The result for one job of an enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It was created.
    Created,
    /// A job with this id exists; nothing changed.
    Exists,
    /// The chain with this id has the same deduplication key; nothing changed.
    Duplicate(JobId),
}

/// A future that ends the waiting of a claim when it completes.
pub type Interrupt<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What to claim.
pub struct ClaimParams<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The holder of the leases.
    pub worker: &'a HolderId,
    /// The duration of the leases.
    pub lease: Duration,
    /// The largest number of jobs; at least 1.
    pub max: usize,
    /// How many of them count as started; the rest are held.
    pub starting: usize,
    /// How long to wait if there are none.
    pub wait: Duration,
    /// Ends the waiting early.
    pub interrupt: Interrupt<'a>,
}

impl<'a> ClaimParams<'a> {
    /// Claims up to `max` jobs, all started, without waiting.
    pub fn now(queue: &'a Queue, worker: &'a HolderId, lease: Duration, max: usize) -> Self {
        let interrupt = Box::pin(pending());
        Self { queue, worker, lease, max, starting: max, wait: Duration::ZERO, interrupt }
    }
}

impl fmt::Debug for ClaimParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, worker, lease, max, starting, wait, .. } = self;
        write!(f, "ClaimParams {{ {queue}, {worker}, {lease:?}, {max}, {starting}, {wait:?} }}")
    }
}

/// A claimed job.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its lease.
    pub lease: Lease,
    /// The envelope, or the bytes that are not one.
    pub body: Result<Envelope, (Bytes, MalformedEnvelope)>,
    /// Whether it counts as started.
    pub started: bool,
}

impl Claimed {
    /// Reads the envelope of a job. `lease` receives the envelope's id, if there is one.
    pub fn read(data: Bytes, started: bool, lease: impl FnOnce(Option<&JobId>) -> Lease) -> Self {
        match Envelope::read(data.clone()) {
            Ok(envelope) => Self { lease: lease(Some(envelope.id())), body: Ok(envelope), started },
            Err(error) => Self { lease: lease(None), body: Err((data, error)), started },
        }
    }
}

/// Which unanswered claims to recover.
#[derive(Debug)]
pub struct RecoverParams<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The worker that claimed.
    pub worker: &'a HolderId,
    /// The duration of the leases.
    pub lease: Duration,
    /// The leases of this queue that the worker knows.
    pub known_leases: &'a HashSet<Lease>,
}

/// Which held jobs to start.
#[derive(Debug)]
pub struct StartParams<'a> {
    /// The holder of the leases.
    pub worker: &'a HolderId,
    /// The leases.
    pub leases: &'a [Lease],
}

/// Which leases to extend.
#[derive(Debug)]
pub struct ExtendParams<'a> {
    /// The holder of the leases.
    pub worker: &'a HolderId,
    /// The leases.
    pub leases: &'a [Lease],
    /// The new duration from now.
    pub lease: Duration,
}

/// The result for one lease of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// It is held, and was extended.
    Yes,
    /// It is held, and was extended, but the cancellation of the job was requested.
    Cancelling,
    /// It is lost.
    Lost,
    /// The part of the store that contains the lease failed: the lease may be extended or lost.
    /// Other leases of the same call were answered.
    Unknown,
}

/// Whether a fenced operation took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did.
    Accepted,
    /// The lease was not the current one; nothing changed.
    LeaseLost,
    /// The part of the store that contains the lease failed: the operation took effect, or did not,
    /// or will later. The caller repeats it. Only [`settle`](super::Store::settle) and
    /// [`rescue`](super::Store::rescue) return this, and only if other leases of the same call were
    /// answered.
    Unknown,
}

/// Which scheduled jobs to promote.
#[derive(Debug)]
pub struct PromoteParams<'a> {
    /// The queues.
    pub queues: &'a [Queue],
    /// The largest number of jobs per queue.
    pub limit: usize,
}

/// The result of a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    /// How many jobs became ready.
    pub moved: u64,
    /// How long until the next is due; zero if more are due now.
    pub next: Option<Duration>,
}

/// A step back of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// What the clock would show now if it had not been set back.
    pub from: Timestamp,
    /// The longest remaining time of any lease that is not extended. Longer than the interval
    /// between two extensions of any worker.
    pub lease_limit: Duration,
}

/// Which expired leases to list.
#[derive(Debug)]
pub struct ListExpiredParams<'a> {
    /// Queues in which a lease of unknown length counts as one of `lease`, because other programs
    /// may claim jobs without recording a length. A store that records the end of each lease
    /// ignores both fields.
    pub queues: &'a [Queue],
    /// The length of such leases.
    pub lease: Duration,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// The largest number of leases.
    pub limit: usize,
}

/// A page of expired leases.
#[derive(Debug, Default)]
pub struct ExpiredLeases {
    /// The leases.
    pub leases: Vec<ExpiredLease>,
    /// The start of the next page, if there is one.
    pub next: Option<String>,
    /// The time of each examined shard's clock.
    pub shard_times: Vec<(u16, Timestamp)>,
}

/// An expired lease.
#[derive(Debug, Clone)]
pub struct ExpiredLease {
    /// The job and its lease.
    pub claimed: Claimed,
    /// The holder.
    pub holder: String,
}

/// The result of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting and has been removed.
    Removed,
    /// It is running; its worker has been notified.
    Requested,
    /// It had already ended, in this state.
    Ended(JobState),
    /// The job does not exist.
    NotFound,
}

/// Which job to complete, and how.
#[derive(Debug)]
pub struct CompleteParams<'a> {
    /// The job with its step; nothing changes if the chain has moved on to another step.
    pub job: &'a JobId,
    /// [`Change::Finish`] or [`Change::Continue`].
    pub change: &'a Change,
}

/// The result of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// The job was completed. A worker that ran it has lost its lease.
    Yes,
    /// It had already ended, in this state. A step that its chain has moved on from counts as done.
    Ended(JobState),
    /// The job does not exist.
    NotFound,
}

/// The result of deleting a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// It was deleted, with its job, record, dead letter and key.
    Yes,
    /// This job waits for it; nothing changed.
    Awaited(JobId),
    /// The chain does not exist.
    NotFound,
}

/// Which dead letters to redrive.
#[derive(Debug)]
pub struct RedriveParams<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The letters.
    pub letters: &'a [RedriveItem],
}

/// A dead letter to redrive.
#[derive(Debug, Clone)]
pub struct RedriveItem {
    /// The job.
    pub job: JobId,
    /// The letter as it was read. If the job has died again meanwhile, its letter differs.
    pub letter: Bytes,
    /// The new envelope of the job.
    pub envelope: Bytes,
}

/// The result of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Deleted records whose retention has expired.
    pub records: u64,
    /// Deleted locks and other leftovers of dead workers.
    pub leftovers: u64,
    /// Whether the call reached its limit, so that there may be more.
    pub more: bool,
}
