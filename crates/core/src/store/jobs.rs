//! The job verbs, from enqueue to settled, with their parameters and results.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::Error;
use crate::chain::JobLinks;
use crate::clock::Timestamp;
use crate::envelope::{Envelope, MalformedEnvelope};
use crate::job::JobState;
use crate::lease::Lease;
use crate::name::{HolderId, JobId, Queue};
use crate::settle::{Change, Settlement};

/// The job part of a store.
///
/// A verb that changes a job keeps its chain, its blockers and a waiting run consistent.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds jobs to a queue: all of them or, on an error, none. In a store with shards this holds
    /// per shard. Returns one result per job, in order, and wakes claims that wait for the queue.
    ///
    /// A job whose id is in the store is not added: [`Enqueued::Exists`]. It may be waiting,
    /// running or dead, or only its record may be left.
    ///
    /// One call creates each job once. A store whose answers can be lost repeats the call itself.
    /// The first call that takes effect leaves a receipt, and repetitions return its result.
    ///
    /// A job with [`JobLinks::after`](JobLinks) is *blocked* until each of these
    /// chains has closed, done or cancelled. Then their ends ([`Blocker`](crate::chain::Blocker))
    /// are added to its envelope in the order of `after`, as
    /// [`with_blockers`](crate::chain::with_blockers) does. A chain that closes concurrently is not
    /// missed, and the job does not start twice.
    ///
    /// With a [`Dedup`](crate::chain::Dedup), one of several concurrent callers starts a chain and
    /// the others get [`Enqueued::Duplicate`]. Such a job keeps its result.
    ///
    /// # Errors
    /// - [`Error::Invalid`] if an id belongs to a run ([`JobId::run`], see
    ///   [`reserved_ids`](super::reserved_ids)), or a chain in `after` keeps no result.
    /// - [`Error::NotFound`] if a chain in `after` does not exist.
    /// - [`Error::Unanswered`] if no repetition was answered: the jobs may exist.
    /// - [`Error::Unconfirmed`] if the jobs exist, but on fewer servers than required.
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error>;

    /// Claims up to `max` jobs that are due, oldest first. No other caller gets them.
    ///
    /// At least once: the job is leased, and returns to the queue if the lease expires. At most
    /// once: the job is removed from the queue. While its lease lasts, no other job with its id can
    /// run; when it expires, the job is forgotten.
    ///
    /// The first `starting` jobs count as started: a crash from now on counts as an attempt. The
    /// others are held until [`start`](Self::start). A paused queue returns no jobs.
    ///
    /// If there are no jobs, it waits for up to `wait`, or until `interrupt` completes. A waiting
    /// claim may rely on what another claim in this process has just seen.
    ///
    /// A store with shards may return one more job per additional shard, not started. A shard that
    /// does not answer does not delay the jobs of others: the claim returns without it, and its
    /// jobs are [recovered](Self::needs_recover) later.
    ///
    /// # Errors
    /// Fails only if no shard answers.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future may strand jobs until [`recover`](Self::recover) or the
    /// end of their lease. Use `interrupt`.
    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error>;

    /// Returns jobs that this worker claimed without receiving the answer: its leases in the queue,
    /// except `known_leases`. They count as claimed. None of them has run, whatever `started` says.
    ///
    /// A worker calls this after a failed claim, and not while it claims from the same queue. If
    /// this answer is lost too, the next call returns the same jobs. A claim that the server
    /// executes after this call is found by the next one. A store may extend the leases or leave
    /// them.
    ///
    /// # Errors
    /// A store with shards answers for those it reaches, and fails if it reaches none.
    /// [`needs_recover`](Self::needs_recover) is true when the others can be asked.
    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error>;

    /// Whether [`recover`](Self::recover) may return jobs although the last claim succeeded. In a
    /// store with shards this is so when a part of a claim failed and that shard is reachable
    /// again. Makes no request.
    fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool {
        let _ = (queue, worker);
        false
    }

    /// Marks held jobs as started. After [`Verdict::LeaseLost`] the worker must not run that job.
    ///
    /// A lease that an open transaction has locked may get that verdict too, so that the other
    /// leases need not wait. So may leases of a shard that fails while others answer. The worker
    /// then returns the job by a settlement, which takes effect when that is possible.
    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error>;

    /// Extends leases to `lease` from now. Returns one result per lease, in order. A lost lease
    /// stays lost.
    ///
    /// If a part of the store fails, such as a shard or a queue with a damaged key, its leases are
    /// [`Extended::Unknown`]. A shard has a sixth of `lease` to answer, but at least a second, so
    /// that the heartbeat gets the other results in time.
    ///
    /// # Errors
    /// Fails only if all parts fail.
    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error>;

    /// Ends claims. Each settlement is atomic and fenced: with a stale token it has no effect and
    /// gets [`Verdict::LeaseLost`]. So the second of two settlements of a lease has no effect. An
    /// expired lease that was not rescued yet can still be settled. Works when the store is out of
    /// memory. If a shard fails and others answer, its settlements are [`Verdict::Unknown`].
    ///
    /// A job with a cancel request is not requeued: it is removed instead, and a waiting run is
    /// notified as by [`cancel`](Self::cancel).
    ///
    /// [`Change::Commit`] ends a run's task. The commit, all its
    /// effects and the run's next task, if there are events that the commit did not consume, are
    /// applied in one step. If the run has advanced, has ended or does not exist, the task ends
    /// without any other effect, and the verdict is `LeaseLost`. The end of a run is announced by
    /// [`Wake::Finished`](super::Wake::Finished) with the id of its task.
    ///
    /// [`Change::Deliver`] ends a job and delivers an event to a
    /// run, in one step. If the run has ended or does not exist, nothing is delivered. A batch may
    /// contain several changes for one run; each sees the effects of those before it.
    ///
    /// [`Change::Continue`] replaces the job with the next step of
    /// its chain, blocked if it has blockers, as in [`enqueue`](Self::enqueue). But a blocker that
    /// cannot be waited for counts as removed instead of being an error, because the work is done.
    /// That is one that does not exist, keeps no result, or is the job's own chain. A step with a
    /// cancel request is not continued: its chain is removed.
    ///
    /// A job that ends with a record, or is removed, releases the jobs that wait for its chain: in
    /// the same step or, in a store with shards, soon after, even if the process dies.
    ///
    /// With [`Fence::Expired`] it rescues: it ends only claims whose lease is *still* expired. A
    /// lease that was extended or settled meanwhile gets `LeaseLost`. The former holder is notified
    /// by [`Wake::LeaseLost`](super::Wake::LeaseLost). Any number of processes may do so
    /// concurrently.
    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error>;

    /// Makes due jobs ready and delivers due timers to runs: a bounded number. Returns how long
    /// until the next is due. Any number of processes may call it concurrently. A damaged record is
    /// moved to the dead letters and does not stop the others.
    ///
    /// In a store with shards it also completes operations between chains that a dead process left
    /// unfinished.
    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error>;

    /// A page of expired leases of all queues. The cost hardly depends on the number of queues. A
    /// store that has to ask for each queue examines some hundreds per call, the caller's queues
    /// first. Changes nothing that leases depend on. In a store with shards, a failing shard is
    /// left out.
    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error>;

    /// Adjusts the store after its clock was set back: jobs that were ready stay ready, and no
    /// lease ends later than the limit from now. For stores that compare waiting jobs with their
    /// clock. Every worker calls it for the same step: the second call changes nothing, and no call
    /// ends a lease that its worker extends.
    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        let _ = step;
        Ok(())
    }

    /// Cancels a job. A waiting job is removed. For a running one the cancellation is requested:
    /// its worker is notified at once by [`Wake::Cancel`](super::Wake::Cancel), and by
    /// [`extend`](Self::extend) at the latest. A run that waits for a removed job is notified in
    /// the same step ([`removal_delivery`](super::runs::removal_delivery)).
    ///
    /// # Errors
    /// [`Error::Invalid`] for tasks and remote commands of runs ([`JobId::is_run_internal`]).
    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error>;

    /// Ends a job regardless of its lease, whether blocked, scheduled, ready or running. A worker
    /// that runs it loses its lease and is notified by [`Wake::LeaseLost`](super::Wake::LeaseLost).
    /// Of two concurrent calls one is accepted. A dead job stays dead until it is redriven.
    ///
    /// # Errors
    /// [`Error::Invalid`] for tasks and remote commands of runs ([`JobId::is_run_internal`]).
    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error>;

    /// Deletes a chain with all its data, in any state, unless another job waits for it. A worker
    /// that runs its job loses its lease and is notified by
    /// [`Wake::LeaseLost`](super::Wake::LeaseLost).
    ///
    /// # Errors
    /// [`Error::Invalid`] for jobs that belong to a run ([`JobId::run`]).
    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error>;

    /// Moves jobs from the dead letters back to their queue, with a new envelope each, ready at
    /// once. Each move is atomic. A letter that is gone, or has been replaced by another, is
    /// skipped. Returns how many moved.
    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error>;

    /// Deletes dead letters. Returns how many there were. Letters of workflow tasks are kept: their
    /// runs continue after a redrive, or are ended by [`terminate`](super::Runs::terminate).
    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error>;

    /// Deletes expired records and locks, and leftovers of dead workers. Bounded, so that no other
    /// call waits for long; the caller repeats it while there is [more](Pruned::more). Any number
    /// of processes may call it concurrently.
    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error>;

    /// Removes the leftovers of a worker that stops and holds no lease. The default does nothing:
    /// in most stores the leases are the only traces of a worker.
    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        let _ = (worker, queues);
        Ok(())
    }
}

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

/// The claims to end.
#[derive(Debug, Clone, Copy)]
pub struct SettleParams<'a> {
    /// The claims, each with its change.
    pub settlements: &'a [Settlement],
    /// Which leases may be ended.
    pub fence: Fence,
}

impl<'a> SettleParams<'a> {
    /// Ends claims whose lease is the current one of its job.
    pub fn current(settlements: &'a [Settlement]) -> Self {
        Self { settlements, fence: Fence::Current }
    }

    /// Ends claims whose lease has expired.
    pub fn expired(settlements: &'a [Settlement]) -> Self {
        Self { settlements, fence: Fence::Expired }
    }
}

/// Which leases a settlement may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The current lease of a job, expired or not.
    Current,
    /// The current lease of a job, if it has expired.
    Expired,
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
    /// or will later. The caller repeats it. Only [`settle`](Jobs::settle) and
    /// [`settle`](Jobs::settle) return this, and only if other leases of the same call were
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
