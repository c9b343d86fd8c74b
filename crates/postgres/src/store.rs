//! The store: opening it, the state that the verbs share, and the verbs of the contract.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use tidemill_core::settle::Settlement;
use tidemill_core::store::runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};
use tidemill_core::store::{
    Cancelled, Checkup, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, Durability,
    EnqueueParams, Enqueued, ExpiredLeases, ExtendParams, Extended, Fleet, JobInfo, ListExpiredParams,
    ListJobsParams, Page, PromoteParams, Promoted, Pruned, QueueInfo, RecoverParams, RedriveParams,
    StartParams, Verdict,
};
use tidemill_core::wake::{Bus, Transport};
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, HolderId, JobId, Queue, Store};
use tokio::task::JoinSet;

use crate::connection::{Connector, Pool};
use crate::jobs::{GroupCommit, LeaseFence, LeaseLowWaterMark, LowWaterMarks, PartialSettles, QueueIds};
use crate::transaction::FunctionCalls;
use crate::wake::{CommitNotify, NotifyTransport, channel};
use crate::{PostgresOptions, migrate};

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
    group_commit: GroupCommit,
    durability: Durability,
    /// The group commit task and the transport task. They end with the store.
    _tasks: JoinSet<()>,
}

/// The state that the verbs share. They are implemented in the modules.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) transport: Arc<dyn Transport>,
    /// Notifies of run ends inside a commit. None if another transport carries the wake-ups.
    pub(crate) commit_notify: Option<CommitNotify>,
    pub(crate) queue_ids: QueueIds,
    pub(crate) low_water_marks: LowWaterMarks,
    pub(crate) lease_low_water_mark: LeaseLowWaterMark,
    /// The time up to which records have been pruned, while there are more.
    pub(crate) pruned_to: AtomicI64,
    /// The same for receipts.
    pub(crate) receipts_pruned_to: AtomicI64,
    pub(crate) calls: FunctionCalls,
    pub(crate) partial_settles: PartialSettles,
}

impl PostgresStore {
    /// Connects and migrates the schema. If the schema already has this build's version, no right
    /// to create objects is needed.
    pub async fn connect(options: PostgresOptions) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(&options)?);
        let commit_notify = options.transport.is_none().then(|| CommitNotify::new(channel(&pool)));
        let listen = options.for_listening().map(|options| Connector::new(&options)).transpose()?;
        let transport: Arc<dyn Transport> =
            options.transport.unwrap_or_else(|| Arc::new(NotifyTransport::new(pool.clone(), listen)));
        let bus = Arc::new(Bus::with_transport(options.poll_interval, pool.clock.clone()));
        let inner = Arc::new(Inner {
            pool,
            bus: bus.clone(),
            transport: transport.clone(),
            commit_notify,
            queue_ids: QueueIds::default(),
            low_water_marks: LowWaterMarks::default(),
            lease_low_water_mark: LeaseLowWaterMark::default(),
            pruned_to: AtomicI64::new(0),
            receipts_pruned_to: AtomicI64::new(0),
            calls: FunctionCalls::new(&options.schema),
            partial_settles: PartialSettles::default(),
        });
        migrate::migrate(&inner.pool).await?;
        let durability = inner.find_durability().await?;
        let mut tasks = JoinSet::new();
        let (group_commit, work) = GroupCommit::new(inner.clone());
        tasks.spawn(work);
        tasks.spawn(async move { transport.run(bus).await });
        Ok(Self { inner, group_commit, durability, _tasks: tasks })
    }
}

impl PostgresStore {
    /// Passes a result on. After an unknown result the change may have happened without a wake-up,
    /// so all waiters are woken.
    fn announced<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.inner.announce_unknown(&result);
        result
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connector = &self.inner.pool.connector;
        f.debug_struct("PostgresStore")
            .field("server", &connector.target.address())
            .field("schema", &connector.schema)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        if GroupCommit::accepts(jobs) {
            return self.announced(self.group_commit.enqueue(queue, jobs.to_vec()).await);
        }
        self.announced(self.inner.enqueue(queue, jobs).await)
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.claim(claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.recover(recover).await
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.inner.start(start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        self.inner.extend(extend).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.announced(self.inner.settle(settlements, LeaseFence::Current).await)
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.inner.promote(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.inner.list_expired(expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        self.inner.adjust_for_clock_step(step).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.announced(self.inner.settle(settlements, LeaseFence::Expired).await)
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.announced(self.inner.cancel(job).await)
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.announced(self.inner.redrive(redrive).await)
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.announced(self.inner.drop_dead(queue, jobs).await)
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.announced(self.inner.set_paused(queue, true).await)
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.announced(self.inner.set_paused(queue, false).await)
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.announced(self.inner.purge(queue).await)
    }

    async fn prune(&self, _queues: &[Queue]) -> Result<Pruned, Error> {
        self.inner.prune().await
    }

    async fn leave(&self, _worker: &HolderId, _queues: &[Queue]) -> Result<(), Error> {
        // A worker's only traces are its leases, and a worker that leaves holds none.
        Ok(())
    }

    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.announced(self.inner.start_run(run).await)
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.announced(self.inner.deliver(deliveries).await)
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.announced(self.inner.terminate(terminate).await)
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.inner.read_journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.inner.get_run(run).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.inner.list_runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.inner.prune_runs(prune).await
    }

    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.inner.get_job(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.inner.list_jobs(list).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.inner.list_queues().await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.inner.checkup().await
    }

    fn bus(&self) -> &Arc<Bus> {
        &self.inner.bus
    }

    fn clock(&self) -> &dyn Clock {
        &*self.inner.pool.clock
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.announced(self.inner.complete(complete).await)
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.announced(self.inner.delete(chain).await)
    }

    fn fleet(&self) -> &dyn Fleet {
        &*self.inner
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn commands(&self) -> u64 {
        self.inner.pool.sent()
    }
}
