//! Tidemill on PostgreSQL.
//!
//! Jobs live in the tables of one schema; every verb is one statement, claims skip what others have locked,
//! and idle workers are woken by LISTEN/NOTIFY, or another courier, with slow polling underneath. Any number of processes share a
//! database.

mod checkup;
mod clock;
mod connection;
mod cursor;
mod error;
mod fleet;
mod floor;
mod found;
mod functions;
mod guests;
mod herald;
mod inspect;
mod jobs;
mod migrate;
mod options;
mod pool;
mod pooler;
mod runs;
mod sql;
mod statements;
mod tls;
mod transaction;
mod voice;

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
use tidemill_core::wake::Bus;
use tidemill_core::wake::Transport;
use tidemill_core::wake::WakeStream;
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, HolderId, JobId, Queue, Store};
use tokio::task::JoinSet;

pub use floor::floors;
pub use options::Options;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use tokio_postgres;
pub use transaction::{Pending, Tx};

use crate::connection::Opener;
use crate::herald::Herald;
use crate::jobs::{Clerk, Ending, Halves, LeaseMark, Marks, Numbers};
use crate::pool::Pool;
use crate::transaction::Calls;
use crate::voice::Voice;

/// A PostgreSQL database that holds jobs.
pub struct PostgresStore {
    inner: Arc<Inner>,
    clerk: Clerk,
    durability: Durability,
    /// The clerk's work and the bus's. They end with the store.
    _tasks: JoinSet<()>,
}

/// What the verbs work with; they are spread over the modules.
pub(crate) struct Inner {
    pool: Arc<Pool>,
    bus: Bus,
    /// For ends that a commit tells of itself; none if wake-ups travel another way.
    voice: Option<Voice>,
    numbers: Numbers,
    marks: Marks,
    lease_mark: LeaseMark,
    /// Up to when records have been pruned, while there are more.
    pruned_to: AtomicI64,
    /// The same for receipts.
    receipts_pruned_to: AtomicI64,
    calls: Calls,
    halves: Halves,
}

impl PostgresStore {
    /// Connects, and brings the schema to the version this build knows. Where it has that version already, no
    /// right to create anything is needed.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(&options)?);
        let voice = options.courier.is_none().then(|| Voice::new(herald::channel(&pool)));
        let listen = options.for_listening().map(|options| Opener::new(&options)).transpose()?;
        let courier: Arc<dyn Transport> =
            options.courier.unwrap_or_else(|| Arc::new(Herald::start(pool.clone(), listen)));
        let inner = Arc::new(Inner {
            pool,
            bus: Bus::new(options.pace, Some(courier)),
            voice,
            numbers: Numbers::default(),
            marks: Marks::default(),
            lease_mark: LeaseMark::default(),
            pruned_to: AtomicI64::new(0),
            receipts_pruned_to: AtomicI64::new(0),
            calls: Calls::of(&options.schema),
            halves: Halves::default(),
        });
        migrate::migrate(&inner.pool).await?;
        let durability = inner.find_durability().await?;
        let mut tasks = JoinSet::new();
        let (clerk, work) = Clerk::new(inner.clone());
        tasks.spawn(work);
        let served = inner.clone();
        tasks.spawn(async move { served.bus.run_transport(&served.pool.clock).await });
        Ok(Self { inner, clerk, durability, _tasks: tasks })
    }
}

impl PostgresStore {
    /// Passes on an answer. After an unknown end the effect may have taken place without being announced, so everybody is
    /// made to look.
    fn told<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        self.inner.announce_unknown(&answer);
        answer
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opener = &self.inner.pool.opener;
        f.debug_struct("PostgresStore")
            .field("server", &opener.target.place())
            .field("schema", &opener.schema)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let EnqueueParams { queue, jobs } = enqueue;
        if Clerk::takes(jobs) {
            return self.told(self.clerk.enqueue(queue, jobs.to_vec()).await);
        }
        self.told(self.inner.enqueue(queue, jobs).await)
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
        self.told(self.inner.settle(settlements, Ending::Current).await)
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.inner.promote(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.inner.expired(expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        self.inner.clock_went_back(step).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.told(self.inner.settle(settlements, Ending::Expired).await)
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.told(self.inner.cancel(job).await)
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.told(self.inner.redrive(redrive).await)
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.told(self.inner.drop_letters(queue, jobs).await)
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.told(self.inner.pause(queue, true).await)
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.told(self.inner.pause(queue, false).await)
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.told(self.inner.purge(queue).await)
    }

    async fn prune(&self, _queues: &[Queue]) -> Result<Pruned, Error> {
        self.inner.prune().await
    }

    async fn leave(&self, _worker: &HolderId, _queues: &[Queue]) -> Result<(), Error> {
        // A worker leaves traces only in leases, and this one holds none.
        Ok(())
    }

    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.told(self.inner.start_run(run).await)
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.told(self.inner.deliver(deliveries).await)
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.told(self.inner.terminate(terminate).await)
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.inner.journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.inner.run(run).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.inner.runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.inner.prune_runs(prune).await
    }

    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.inner.get(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.inner.list(list).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.inner.queues().await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.inner.checkup().await
    }

    async fn flush(&self) {
        self.inner.bus.flush().await;
    }

    fn subscribe(&self) -> WakeStream {
        self.inner.bus.subscribe()
    }

    fn clock(&self) -> &dyn Clock {
        &self.inner.pool.clock
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.told(self.inner.complete(complete).await)
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.told(self.inner.delete(chain).await)
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
