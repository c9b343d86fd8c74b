//! The store contract: everything an engine may ask of the place where state lives.
//!
//! A verb is one atomic effect. It takes its parameters in a struct and says who may call it at the same time
//! as what, what a second call does, and whose clock counts (the store's, always). What must hold for every
//! store is written as cases in `testkit::conformance`; that suite is the definition of a store.

mod error;
pub mod fleet;
mod inspect;
mod jobs;
pub mod reserved_ids;
pub mod runs;

use std::fmt;

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
pub use crate::wake::{Wake, WakeStream};
use crate::workflow::RunId;

/// A place where jobs live. Every method may be called by any number of tasks and processes at once.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    // ---- jobs -------------------------------------------------------------------------------------------

    /// Adds jobs to a queue: all of them or, on an error, none (per shard, where a store has shards).
    ///
    /// A job whose id is already in the store, waiting, running, dead or with its record still kept, is not
    /// added again and answered with [`Enqueued::Exists`]. An id that belongs to a run ([`JobId::run`]) is
    /// [`Error::Invalid`]: see [`reserved_ids`].
    ///
    /// One call makes each job once, however fast it runs and whatever happens on the way. A store whose answers can be
    /// lost repeats the call by itself; the first to take effect leaves a receipt that outlives the repeats, and they
    /// are answered from it with what the first one did. [`Error::Unanswered`] means that no repeat was answered: the
    /// jobs may be there. [`Error::Unconfirmed`] means that they are there, but on fewer servers than was asked for.
    /// Announces the work to whoever waits in [`claim`](Self::claim). Answers in the jobs' order.
    ///
    /// A job with [`Links::after`](crate::chain::JobLinks) is *blocked* until each of these chains is closed, done or
    /// cancelled, and then gets what they tell ([`Blocker`](crate::chain::Blocker)) into its envelope, as
    /// [`with_blockers`](crate::chain::with_blockers) does, in the order of `after`. It can neither miss a chain
    /// that closes in this moment nor start twice. A chain that is not there is [`Error::NotFound`], one that
    /// keeps no result [`Error::Invalid`]. With a [`Dedup`](crate::chain::Dedup) of several callers at once one
    /// starts a chain and the others get [`Enqueued::Duplicate`]; such a job keeps its result.
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error>;

    /// Takes up to `max` jobs whose time has come, oldest first, giving each to this caller only.
    ///
    /// At least once: the job is leased and comes back if the lease runs out. At most once: the job is taken
    /// off the queue; while its lease lasts nobody else can run a job of the same id, and when it runs out
    /// the job is forgotten. The first `starting` jobs count as started (a crash from now on is an attempt);
    /// the others are only held, until [`start`](Self::start). A paused queue gives nothing.
    ///
    /// With nothing to take it waits up to `wait` for work; a claim that waits may rely on what another claim
    /// in this process saw a moment ago. It ends early, without losing anything, when `interrupt` completes. The future must be driven to its end: dropping it may strand a job until
    /// [`recover`](Self::recover) is called or its lease runs out. A store with shards may return one job more per further shard, not started.
    /// A shard that does not answer holds back nothing that others gave: the claim ends without it, and what the shard gives
    /// later is [recovered](Self::needs_recover). The claim fails only if no shard answers.
    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error>;

    /// Returns jobs that claims of this worker took and whose answers the worker never received: what it holds in the
    /// queue, beyond the leases it knows. They count as claimed and, whatever `started` says, none of them has run.
    ///
    /// A worker calls this after a claim has ended in an error, and not while it claims from the same queue. The answer may
    /// be lost as well: the next call returns the same jobs. A store may leave a lease as it is or extend it. A claim
    /// that the server executes later than this call is found by the next one. Where a store has shards,
    /// it answers for those that it reaches, and fails if it reaches none. [`needs_recover`](Self::needs_recover) is true once the
    /// others can be asked.
    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error>;

    /// Whether jobs may wait for [`recover`](Self::recover) although the last claim did not fail, as in a store with shards: a
    /// part of a claim has failed since the last look, and that shard can be asked now. Asks nobody.
    fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool {
        let _ = (queue, worker);
        false
    }

    /// Marks held jobs as started. Whoever gets [`Verdict::LeaseLost`] must not run that job. A lease that somebody's
    /// open transaction has locked may be answered so as well, so that the others need not wait for it: whoever
    /// gives the job back then, by a settlement, gives it back as soon as that is possible. The same goes for leases of a
    /// shard that fails while others answer.
    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error>;

    /// Extends leases to `lease` from now. Answers in the leases' order; a lease that is lost stays lost. Where a part of a
    /// store fails, such as a shard or a queue with a damaged key, its leases are [`Extended::Unknown`]; the call fails only if
    /// every part does. A shard has a sixth of `lease` to answer, but a second at least, so
    /// that a heartbeat hears of the others in time.
    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error>;

    /// Ends claims. Each settlement is atomic by itself and fenced: with a stale token it has no effect and
    /// gets [`Verdict::LeaseLost`]; so of two settlements of one lease the second has no effect. An expired
    /// lease that nobody has rescued yet can still be settled. A job that is to be cancelled is not put back:
    /// its requeue removes it, and a run that waits for it is told as [`cancel`](Self::cancel) says. Works when the store
    /// is out of memory. Where a shard fails and others answer, its settlements are [`Verdict::Unknown`].
    ///
    /// [`Change::Commit`](crate::settle::Change::Commit) ends a run's task: the commit and all its effects take place in
    /// one step, and so does the run's next task, if there are events that the commit did not consume. One whose run
    /// has come further, has ended or is not there ends the task, has no other effect and is answered as a lost lease.
    /// [`Change::Deliver`](crate::settle::Change::Deliver) ends a job and tells a run of it, in one step; if the run has
    /// ended or is not there, nobody. A batch may hold several changes for one run; each sees those before it. Whoever
    /// waits for a run's end is told by [`Wake::Finished`] with the id of its task.
    ///
    /// [`Change::Continue`](crate::settle::Change::Continue) puts the next step of the chain in the job's place,
    /// with what is said of blocked jobs at [`enqueue`](Self::enqueue), but that a chain which cannot be waited for
    /// (it is gone, keeps no result, or is the job's own) counts as removed: the work is done, and a settlement must not
    /// fail for it. Of a step that is to be cancelled the
    /// chain is removed instead. A job that ends with a record, or is removed, releases those that wait for its
    /// chain, in the same step or, where a store has shards, surely soon after.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error>;

    /// Makes jobs ready whose time has come and tells runs of their timers, a bounded number, and says how long until
    /// the next.
    /// Safe everywhere at once; a bad record is set aside in the dead letters and the rest go on. Where a store
    /// has shards it also carries on what a dead process left half-way between chains and those that wait for them.
    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error>;

    /// A page of leases that have run out, of every queue, a bounded number. One look costs about the same however many
    /// queues there are; a store that must ask for each looks at some hundreds of them each time, the caller's first. Changes
    /// nothing that a lease depends on. Where a store has shards, one that fails is left out.
    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error>;

    /// Somebody has set the store's clock back. What was ready then stays ready, and no lease ends later than the limit
    /// from now. For a store that compares what waits with its clock. Every worker calls it for the same step: the second
    /// call changes nothing, and no call ends a lease that its worker extends.
    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        let _ = step;
        Ok(())
    }

    /// Ends expired claims, like [`settle`](Self::settle), but only those that are *still* expired: a lease
    /// that was extended or settled since gets [`Verdict::LeaseLost`]. Whoever had the job hears of it by
    /// [`Wake::LeaseLost`]. Safe everywhere at once.
    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error>;

    /// Cancels a job: a waiting one is removed, a running one is told (its worker hears of it by
    /// [`Wake::Cancel`] at once, and by [`extend`](Self::extend) at the latest). If a run waits for a job that is removed, it
    /// is told in the same step ([`runs::removal_delivery`]). What a run goes on by ([`JobId::is_run_internal`]) is refused:
    /// [`Error::Invalid`].
    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error>;

    /// Moves letters out of the dead letters with a fresh envelope each, ready at once. Each move is atomic;
    /// a letter that is gone, or is another one by now, is skipped. Returns how many moved.
    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error>;

    /// Deletes letters for good. Returns how many there were. Those of tasks stay: their runs go on when they are redriven,
    /// and are ended by [`terminate`](Self::terminate).
    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error>;

    /// Stops giving out the queue's jobs. Claims made after this returns get nothing; a claim that is waiting
    /// is told at once and stops within its `wait`. Twice is once.
    async fn pause(&self, queue: &Queue) -> Result<(), Error>;

    /// Gives the queue's jobs out again. Twice is once.
    async fn resume(&self, queue: &Queue) -> Result<(), Error>;

    /// Deletes the jobs of a queue that wait at the call, scheduled, blocked and ready; running and dead ones stay, and so
    /// does what runs go on by ([`JobId::is_run_internal`]). A job that is enqueued meanwhile stays. A run that waits for a job that is deleted is told, as by [`cancel`](Self::cancel).
    async fn purge(&self, queue: &Queue) -> Result<u64, Error>;

    /// Removes what has outlived its purpose: expired records and locks, traces of dead workers.
    /// Bounded, so that nobody waits long for it: whoever prunes calls again while there is [more](Pruned::more). Safe
    /// everywhere at once.
    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error>;

    /// Makes queues known before their first job, for a store that learns of a queue by its jobs alone: other
    /// programs may be filling one that has never been enqueued to. Twice is once.
    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        let _ = queues;
        Ok(())
    }

    /// A worker that holds nothing any more is going: removes its traces.
    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error>;

    // ---- chains -----------------------------------------------------------------------------------------

    /// Ends a job from outside, whatever its lease: blocked, scheduled, ready or running. The worker that runs
    /// it loses its lease, and hears of it by [`Wake::LeaseLost`]. Of two at once one is accepted. A dead job stays
    /// dead until it is redriven. What a run goes on by ([`JobId::is_run_internal`]) is refused: [`Error::Invalid`].
    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error>;

    /// Deletes a chain with everything in it, in whatever state, unless another job waits for it. A worker that
    /// runs its job loses its lease, and hears of it by [`Wake::LeaseLost`]. What belongs to a run ([`JobId::run`]) is refused:
    /// [`Error::Invalid`].
    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error>;

    // ---- workflows --------------------------------------------------------------------------------------

    /// Starts a run: its journal, its effects and its first task, in one step. Of several callers with one key, or one
    /// id, one starts it. A closed run that is still kept counts as being there; one whose time is over does not, pruned or
    /// not.
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error>;

    /// Appends events to journals and sees to it that each run has a task: one, however many events there are. A task
    /// is there if a job with the task's id ([`RunId::task`]) is, in whatever state; so one that another program took away
    /// is made anew by the next event. Answers in the deliveries' order; each is atomic by itself. Order is kept per run and
    /// caller.
    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error>;

    /// Ends a run at once, without asking its code: it is closed, its alarms and its task are gone; a worker that has
    /// the task has lost its lease, and hears of it by [`Wake::LeaseLost`]. [`Verdict::LeaseLost`] if the run is not there,
    /// has ended, or has come further.
    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error>;

    /// A part of a journal with its positions. Empty for a run that is not there.
    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error>;

    /// Looks up one run.
    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error>;

    /// A page of runs, newest first.
    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error>;

    /// Removes closed runs with all they have: those whose time is over, and of each type the oldest beyond a number, but
    /// not for that if they have only just ended ([`PruneRunsParams::min_age`]). A bounded number; returns how many. Safe
    /// everywhere at once.
    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error>;

    /// Whether two runs lie in one shard, so that a commit of one can tell the other.
    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        let _ = (one, other);
        true
    }

    // ---- the fleet --------------------------------------------------------------------------------------

    /// What this store knows of the fleet.
    fn fleet(&self) -> &dyn Fleet;

    // ---- inspect: bounded pages and counters, never a scan of everything ---------------------------------

    /// Looks up one job, in whatever state. Any step's id finds what its chain is at now:
    /// [`JobInfo::job`] is the id of the current step, or the chain's own if only its record is left.
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error>;

    /// A page of a queue's jobs in one state, oldest first; running at-most-once jobs, which have left their
    /// queue, in any order.
    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error>;

    /// Every queue that is known, with its counts.
    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error>;

    /// Examines the store as an operator would: versions, durability, permissions, leftovers.
    async fn checkup(&self) -> Result<Checkup, Error>;

    /// Repairs what `checkup` finds and can be repaired without losing anything, and says what it did. A second call
    /// finds nothing left to do. Most stores have nothing of the kind: their servers keep other programs from damaging them.
    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        Ok(Vec::new())
    }

    // ---- wake and time ----------------------------------------------------------------------------------

    /// Listens for what other tasks and processes announce. Hints only: anything may be lost, doubled or made up. Every end
    /// of a job that somebody may wait for is announced by [`Wake::Finished`], or by [`Wake::Everything`] if there are many.
    /// A call that is repeated because its answer was lost announces again, whatever its verdict.
    /// The stream never ends; it resumes by itself after the store was away.
    fn subscribe(&self) -> WakeStream;

    /// Waits, a moment at most, until what was announced has left this process: for a program that is about
    /// to end. A store that announces inside its verbs has nothing to wait for.
    async fn flush(&self) {}

    /// This store as what it is, for what only its own driver can do: taking part in a user's transaction.
    fn as_any(&self) -> &dyn std::any::Any;

    /// The store's clock.
    fn clock(&self) -> &dyn Clock;

    /// How safe an acknowledged enqueue is.
    fn durability(&self) -> Durability;

    /// How many commands (statements, scripts) this store has been sent by this process so far.
    fn commands(&self) -> u64;
}
