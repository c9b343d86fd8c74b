//! The store contract: the operations that engines may use.
//!
//! Each verb is one atomic operation with a parameter struct. Its documentation says what may run
//! concurrently, what a repeated call does, and which errors it returns. Due times and leases are
//! compared with the store's clock only. `testkit::conformance` tests this contract: a store is
//! correct if it passes that suite.

mod error;
pub mod fleet;
mod inspect;
mod jobs;
pub mod reserved_ids;
pub mod runs;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use error::{BoxError, Error};
pub use fleet::Fleet;
pub use inspect::{
    COUNT_CAP, Checkup, Durability, Finding, JobInfo, JobRecord, ListJobsParams, Page, QueueInfo, Severity,
};
pub use jobs::{
    Cancelled, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, Due, EnqueueParams,
    Enqueued, ExpiredLease, ExpiredLeases, ExtendParams, Extended, Interrupt, ListExpiredParams, NewJob,
    PromoteParams, Promoted, Pruned, RecoverParams, RedriveItem, RedriveParams, StartParams, Verdict,
};
use runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};

use crate::clock::Clock;
use crate::name::{HolderId, JobId, Queue};
use crate::settle::Settlement;
pub use crate::wake::{Bus, Wake, WakeStream};
use crate::workflow::RunId;

/// A store of jobs, runs and fleet workers. Every method may be called by any number of tasks and
/// processes concurrently.
///
/// Every verb may be repeated after [`Error::Unanswered`], except [`enqueue`](Self::enqueue), which
/// the store repeats itself.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    // ---- jobs -----------------------------------------------------------------------------------

    /// Adds jobs to a queue: all of them or, on an error, none. In a store with shards this holds
    /// per shard. Returns one result per job, in order, and wakes claims that wait for the queue.
    ///
    /// A job whose id is in the store is not added: [`Enqueued::Exists`]. It may be waiting,
    /// running or dead, or only its record may be left.
    ///
    /// One call creates each job once. A store whose answers can be lost repeats the call itself.
    /// The first call that takes effect leaves a receipt, and repetitions return its result.
    ///
    /// A job with [`JobLinks::after`](crate::chain::JobLinks) is *blocked* until each of these
    /// chains has closed, done or cancelled. Then their ends ([`Blocker`](crate::chain::Blocker))
    /// are added to its envelope in the order of `after`, as
    /// [`with_blockers`](crate::chain::with_blockers) does. A chain that closes concurrently is not
    /// missed, and the job does not start twice.
    ///
    /// With a [`Dedup`](crate::chain::Dedup), one of several concurrent callers starts a chain and
    /// the others get [`Enqueued::Duplicate`]. Such a job keeps its result.
    ///
    /// # Errors
    /// - [`Error::Invalid`] if an id belongs to a run ([`JobId::run`], see [`reserved_ids`]), or a
    ///   chain in `after` keeps no result.
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
    /// [`Change::Commit`](crate::settle::Change::Commit) ends a run's task. The commit, all its
    /// effects and the run's next task, if there are events that the commit did not consume, are
    /// applied in one step. If the run has advanced, has ended or does not exist, the task ends
    /// without any other effect, and the verdict is `LeaseLost`. The end of a run is announced by
    /// [`Wake::Finished`] with the id of its task.
    ///
    /// [`Change::Deliver`](crate::settle::Change::Deliver) ends a job and delivers an event to a
    /// run, in one step. If the run has ended or does not exist, nothing is delivered. A batch may
    /// contain several changes for one run; each sees the effects of those before it.
    ///
    /// [`Change::Continue`](crate::settle::Change::Continue) replaces the job with the next step of
    /// its chain, blocked if it has blockers, as in [`enqueue`](Self::enqueue). But a blocker that
    /// cannot be waited for counts as removed instead of being an error, because the work is done.
    /// That is one that does not exist, keeps no result, or is the job's own chain. A step with a
    /// cancel request is not continued: its chain is removed.
    ///
    /// A job that ends with a record, or is removed, releases the jobs that wait for its chain: in
    /// the same step or, in a store with shards, soon after, even if the process dies.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error>;

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

    /// Ends expired claims like [`settle`](Self::settle), but only those that are *still* expired.
    /// A lease that was extended or settled meanwhile gets [`Verdict::LeaseLost`]. The former
    /// holder is notified by [`Wake::LeaseLost`]. Any number of processes may call it concurrently.
    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error>;

    /// Cancels a job. A waiting job is removed. For a running one the cancellation is requested:
    /// its worker is notified at once by [`Wake::Cancel`], and by [`extend`](Self::extend) at the
    /// latest. A run that waits for a removed job is notified in the same step
    /// ([`runs::removal_delivery`]).
    ///
    /// # Errors
    /// [`Error::Invalid`] for tasks and remote commands of runs ([`JobId::is_run_internal`]).
    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error>;

    /// Moves jobs from the dead letters back to their queue, with a new envelope each, ready at
    /// once. Each move is atomic. A letter that is gone, or has been replaced by another, is
    /// skipped. Returns how many moved.
    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error>;

    /// Deletes dead letters. Returns how many there were. Letters of workflow tasks are kept: their
    /// runs continue after a redrive, or are ended by [`terminate`](Self::terminate).
    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error>;

    /// Pauses a queue. Claims that start after this returns get no jobs. A waiting claim is
    /// notified at once and ends within its `wait`. Idempotent.
    async fn pause(&self, queue: &Queue) -> Result<(), Error>;

    /// Resumes a paused queue. Idempotent.
    async fn resume(&self, queue: &Queue) -> Result<(), Error>;

    /// Deletes the jobs of a queue that wait at the time of the call: scheduled, blocked and ready
    /// ones. Running and dead jobs stay, and so do tasks and remote commands of runs
    /// ([`JobId::is_run_internal`]). Jobs that are enqueued meanwhile stay. A run that waits for a
    /// deleted job is notified, as by [`cancel`](Self::cancel).
    async fn purge(&self, queue: &Queue) -> Result<u64, Error>;

    /// Deletes expired records and locks, and leftovers of dead workers. Bounded, so that no other
    /// call waits for long; the caller repeats it while there is [more](Pruned::more). Any number
    /// of processes may call it concurrently.
    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error>;

    /// Registers queues before their first job. For a store that learns of queues only by enqueues:
    /// other programs may fill a queue that no client has enqueued to. Idempotent.
    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        let _ = queues;
        Ok(())
    }

    /// Removes the leftovers of a worker that stops and holds no lease.
    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error>;

    // ---- chains ---------------------------------------------------------------------------------

    /// Ends a job regardless of its lease, whether blocked, scheduled, ready or running. A worker
    /// that runs it loses its lease and is notified by [`Wake::LeaseLost`]. Of two concurrent calls
    /// one is accepted. A dead job stays dead until it is redriven.
    ///
    /// # Errors
    /// [`Error::Invalid`] for tasks and remote commands of runs ([`JobId::is_run_internal`]).
    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error>;

    /// Deletes a chain with all its data, in any state, unless another job waits for it. A worker
    /// that runs its job loses its lease and is notified by [`Wake::LeaseLost`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for jobs that belong to a run ([`JobId::run`]).
    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error>;

    // ---- workflows ------------------------------------------------------------------------------

    /// Starts a run: its journal, its effects and its first task, in one step. Of concurrent
    /// callers with the same key or id, one starts it. A closed run that is still kept counts as
    /// existing; one whose retention has expired does not, whether pruned or not.
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error>;

    /// Appends events to journals and ensures that each run has a task: one, however many events
    /// there are. The task exists if a job with its id ([`RunId::task`]) exists in any state. So a
    /// task that another program removed is created again by the next event. Returns one result per
    /// delivery, in order; each is atomic. The order is kept per run and caller.
    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error>;

    /// Ends a run at once, without running its code: it is closed, and its timers and its task are
    /// removed. A worker that runs the task loses its lease and is notified by [`Wake::LeaseLost`].
    /// Returns [`Verdict::LeaseLost`] if the run does not exist, has ended, or has advanced beyond
    /// `cursor`.
    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error>;

    /// A part of a journal with positions. Empty if the run does not exist.
    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error>;

    /// Looks up one run.
    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error>;

    /// A page of runs, newest first.
    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error>;

    /// Deletes closed runs with all their data: those whose retention has expired, and of each
    /// workflow the oldest beyond a number. For the latter only if they ended long enough ago
    /// ([`PruneRunsParams::min_age`]). Deletes a bounded number and returns it. Any number of
    /// processes may call it concurrently.
    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error>;

    /// Whether two runs are in one shard, so that a commit of one can deliver to the other.
    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        let _ = (one, other);
        true
    }

    // ---- the fleet ------------------------------------------------------------------------------

    /// The fleet part of this store.
    fn fleet(&self) -> &dyn Fleet;

    // ---- inspect: bounded pages and counters, never a scan of everything ------------------------

    /// Looks up one job in any state. The id of any step finds the current job of the chain:
    /// [`JobInfo::job`] is the id of the current step, or that of the chain if only the record is
    /// left.
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error>;

    /// A page of a queue's jobs in one state, oldest first. Running at-most-once jobs, which are no
    /// longer in their queue, come in any order.
    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error>;

    /// All known queues with their counts.
    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error>;

    /// Examines the store for an operator: versions, durability, permissions, leftovers.
    async fn checkup(&self) -> Result<Checkup, Error>;

    /// Repairs findings of `checkup` that can be repaired without loss, and returns what it did.
    /// Idempotent. The default does nothing: most servers keep other programs from damaging a
    /// store.
    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        Ok(Vec::new())
    }

    // ---- wake and time --------------------------------------------------------------------------

    /// Subscribes to wake-ups of all tasks and processes. They are hints: any may be lost, repeated
    /// or wrong.
    ///
    /// Every end of a job that a caller may wait for is announced by [`Wake::Finished`], or by
    /// [`Wake::Everything`] if there are many. A call that is repeated after a lost answer
    /// announces again, whatever its verdict. The stream never ends; it resumes after an outage of
    /// the store.
    fn subscribe(&self) -> WakeStream {
        self.bus().subscribe()
    }

    /// The bus that dispatches this store's wake-ups in this process.
    fn bus(&self) -> &Arc<Bus>;

    /// Waits briefly until all published wake-ups have left this process. For programs that are
    /// about to end.
    async fn flush(&self) {
        self.bus().flush().await;
    }

    /// The concrete store, for features of its driver such as the user's transactions.
    fn as_any(&self) -> &dyn std::any::Any;

    /// The store's clock.
    fn clock(&self) -> &dyn Clock;

    /// What an acknowledged enqueue survives.
    fn durability(&self) -> Durability;

    /// The number of commands (statements, scripts) that this process has sent to the store.
    fn commands(&self) -> u64;
}
