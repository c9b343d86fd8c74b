//! The store: two database threads and the verbs that are sent to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidemill_core::name::{HolderId, JobId, Queue};
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
use tidemill_core::wake::WakeStream;
use tidemill_core::workflow::RunId;
use tidemill_core::{Clock, Error, Store};
use tokio::task::JoinSet;

use crate::call::{Cost, Tx};
use crate::clock::MachineClock;
use crate::error::Failure;
use crate::line::{Line, Message};
use crate::options::{Location, Options};
use crate::promises::Promises;
use crate::wake::{Announcer, Ear};
use crate::{chains, checkup, inspect, jobs, reader, runs, writer};

/// Jobs in SQLite. Cheap to clone; the file is closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    writer: Line,
    /// None in memory, where there is only one connection.
    reader: Option<Line>,
    announcer: Announcer,
    clock: Arc<dyn Clock>,
    durability: Durability,
    commands: AtomicU64,
    /// The file, by its canonical name; none in memory.
    file: Option<PathBuf>,
    promises: Arc<Promises>,
    /// Brings work from other processes, until the store is dropped.
    _service: JoinSet<()>,
}

/// Without a courier there is nothing to bring.
fn serve(bus: Arc<Bus>, clock: Arc<dyn Clock>, carried: bool) -> JoinSet<()> {
    let mut service = JoinSet::new();
    if carried {
        service.spawn(async move { bus.run_transport(&*clock).await });
    }
    service
}

impl SqliteStore {
    /// Opens the database, makes it if it is not there and brings its schema up to date.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let durability = options.durability();
        let path = options.path.clone();
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(MachineClock));
        let carried = options.courier.is_some();
        let announcer = Announcer::new(options.courier.clone());
        let writer = writer::start(options, clock.clone(), announcer.clone()).await?;
        let (reader, file) = match path {
            Location::File(path) => {
                let file = path.canonicalize().unwrap_or_else(|_| path.clone());
                (Some(reader::start(path, clock.clone()).await?), Some(file))
            }
            Location::Memory => (None, None),
        };
        let (commands, promises) = (AtomicU64::new(0), Arc::default());
        let _service = serve(announcer.bus().clone(), clock.clone(), carried);
        let shared =
            Shared { writer, reader, announcer, clock, durability, commands, file, promises, _service };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Changes a setting of the writing connection. For tests that need a small or a read-only disk.
    #[doc(hidden)]
    pub async fn set_pragma(&self, pragma: &'static str) -> Result<(), Error> {
        self.write(Cost::change(1), move |tx| Ok(tx.connection.execute_batch(&format!("PRAGMA {pragma}"))?))
            .await
    }

    /// Has `work` done in a transaction, together with whatever else is waiting. It may run twice.
    pub(crate) async fn write<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.writer.call(cost, work).await
    }

    /// Has `work` done like [`write`](Self::write), but once. If it fails, it must have left nothing behind.
    pub(crate) async fn write_once<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.writer.call_once(cost, work).await
    }

    /// The file this store is in; none if it is in memory.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.shared.file.as_deref()
    }

    pub(crate) fn promises(&self) -> &Arc<Promises> {
        &self.shared.promises
    }

    /// Has `work` done on the reading connection.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.reader.as_ref().unwrap_or(&self.shared.writer).call(Cost::change(1), work).await
    }

    /// From now on until it is dropped, other processes are watched.
    pub(crate) fn hear(&self) -> Ear {
        let (ear, is_first) = self.shared.announcer.hear();
        if is_first {
            self.shared.writer.send(Message::Listen);
        }
        ear
    }

    /// Where everything is announced, and claims wait.
    pub(crate) fn bus(&self) -> &Bus {
        self.shared.announcer.bus()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        jobs::enqueue(self, enqueue).await
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        jobs::claim(self, claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        jobs::recover(self, recover).await
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        jobs::start(self, start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        jobs::extend(self, extend).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        jobs::settle(self, settlements).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        jobs::promote(self, promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        jobs::expired(self, expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        jobs::clock_went_back(self, step).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        jobs::rescue(self, settlements).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        jobs::cancel(self, job).await
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        jobs::redrive(self, redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        jobs::drop_letters(self, queue, jobs).await
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        jobs::pause(self, queue).await
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        jobs::resume(self, queue).await
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        jobs::purge(self, queue).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        jobs::prune(self, queues).await
    }

    /// A worker that holds nothing has left nothing: its only traces are its leases.
    async fn leave(&self, _worker: &HolderId, _queues: &[Queue]) -> Result<(), Error> {
        Ok(())
    }

    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        inspect::get(self, job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        inspect::list(self, list).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        inspect::queues(self).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        checkup::checkup(self).await
    }

    async fn flush(&self) {
        self.bus().flush().await;
    }

    fn subscribe(&self) -> WakeStream {
        self.hear().with(self.bus().subscribe())
    }

    fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        chains::complete(self, complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        chains::delete(self, chain).await
    }

    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        runs::start(self, run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        runs::deliver(self, deliveries).await
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        runs::terminate(self, terminate).await
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        runs::journal(self, read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        runs::run(self, run).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        runs::list(self, list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        runs::prune(self, prune).await
    }

    fn fleet(&self) -> &dyn Fleet {
        self
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// Pieces of work sent to the database. Looking at SQLite's change counter is none.
    fn commands(&self) -> u64 {
        self.shared.commands.load(Ordering::Relaxed)
    }
}
