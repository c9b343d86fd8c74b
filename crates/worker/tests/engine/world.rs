//! An in-memory store, its paused clock, and the jobs that the tests run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_core::dead_letter::DeadLetter;
use tidemill_core::job::JobState;
use tidemill_core::name::{Queue, QueueName};
use tidemill_core::store::{Inspect, JobInfo, ListJobsParams, QueueInfo};
use tidemill_core::wake::{Bus, PollInterval};
use tidemill_core::{Client, Envelope, Job, JobId, Store, Timestamp};
use tidemill_sqlite::{PausedClock, SqliteOptions, SqliteStore};
use tidemill_worker::{Event, Report, Worker, WorkerBuilder, WorkerError};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fault_plan::FaultPlan;
use crate::faulty_store::{FaultyStore, LostShard};

/// A test that waits longer than this hangs.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A job for any handler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ping {
    pub(crate) n: u32,
}

impl Job for Ping {
    const KIND: &'static str = "ping";
    type Output = u32;
}

/// Another kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pong {
    pub(crate) n: u32,
}

impl Job for Pong {
    const KIND: &'static str = "pong";
    type Output = ();
}

pub(crate) struct World {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: PausedClock,
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = PausedClock::new(Timestamp(1_735_689_600_000));
        let options = SqliteOptions::memory().clock(Arc::new(clock.clone()));
        let inner: Arc<dyn Store> = Arc::new(SqliteStore::open(options).await.unwrap());
        let store = Arc::new(FaultyStore {
            inner,
            plan: FaultPlan::default(),
            pruned: 0.into(),
            muted: false.into(),
            silent_bus: Arc::new(Bus::new(PollInterval::NEVER)),
            shard: LostShard::default(),
            uncounted: false.into(),
        });
        let client = Client::new(store.clone());
        Self { store, clock, client }
    }

    pub(crate) fn plan(&self) -> &FaultPlan {
        &self.store.plan
    }

    /// From now on new subscribers receive no wake-up.
    pub(crate) fn mute(&self) {
        self.store.muted.store(true, Ordering::SeqCst);
    }

    /// Waits for `event` while the store's clock advances. Sleepers may start at any moment, so a
    /// single large step might come too early.
    pub(crate) async fn as_time_passes<T>(&self, event: impl Future<Output = T>) -> T {
        let mut event = std::pin::pin!(with_timeout(event));
        loop {
            tokio::select! {
                biased;
                happened = &mut event => return happened,
                () = tokio::time::sleep(Duration::from_millis(1)) => self.clock.advance(Duration::from_millis(500)),
            }
        }
    }

    /// Completes when the job is in this state.
    pub(crate) async fn becomes(&self, job: &JobId, state: JobState) {
        while self.state(job).await != Some(state) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn worker(&self) -> WorkerBuilder {
        Worker::builder(&self.client)
    }

    /// Enqueues `jobs` pings on the default queue.
    pub(crate) async fn pings(&self, jobs: u32) -> Vec<JobId> {
        self.client.jobs((0..jobs).map(|n| Ping { n })).enqueue().await.unwrap()
    }

    pub(crate) async fn ping(&self) -> JobId {
        self.pings(1).await.remove(0)
    }

    pub(crate) async fn info(&self, job: &JobId) -> JobInfo {
        self.store.get_job(job).await.unwrap().unwrap_or_else(|| panic!("job {job} is gone"))
    }

    pub(crate) async fn state(&self, job: &JobId) -> Option<JobState> {
        self.store.get_job(job).await.unwrap().map(|info| info.state)
    }

    pub(crate) async fn envelope(&self, job: &JobId) -> Envelope {
        Envelope::read(self.info(job).await.data).unwrap()
    }

    pub(crate) async fn letter(&self, job: &JobId) -> DeadLetter {
        DeadLetter::read(self.info(job).await.data).unwrap()
    }

    pub(crate) async fn letters(&self) -> Vec<DeadLetter> {
        let list = ListJobsParams { queue: &queue(), state: JobState::Dead, cursor: None, limit: 100 };
        let page = self.store.list_jobs(list).await.unwrap();
        page.items.into_iter().map(|info| DeadLetter::read(info.data).unwrap()).collect()
    }

    pub(crate) async fn queue_info(&self) -> QueueInfo {
        let infos = self.store.inner.list_queues().await.unwrap();
        infos.into_iter().find(|info| info.queue == queue()).unwrap()
    }
}

pub(crate) fn queue() -> Queue {
    Queue::at_least_once(QueueName::new("default").unwrap())
}

/// A worker in the background.
pub(crate) struct Background {
    pub(crate) events: broadcast::Receiver<Event>,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    pub(crate) fn run(worker: WorkerBuilder) -> Self {
        let (events, stop) = (worker.events(), CancellationToken::new());
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { events, stop, run }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        with_timeout(self.events.recv()).await.unwrap()
    }

    pub(crate) fn request_stop(&self) {
        self.stop.cancel();
    }

    /// Completes when the worker ends without `stop`.
    pub(crate) async fn ended(self) -> Report {
        with_timeout(self.run).await.unwrap().unwrap()
    }

    /// Kills the worker: nothing is settled, and it does not leave the fleet.
    pub(crate) async fn kill(self) {
        self.run.abort();
        let _ = self.run.await;
    }

    pub(crate) async fn stop(self) -> Report {
        self.stop.cancel();
        with_timeout(self.run).await.unwrap().unwrap()
    }
}

pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("it never happens")
}
