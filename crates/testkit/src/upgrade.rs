//! An older store: fills a store with jobs in every state, and checks much later that all of them
//! still work.
//!
//! Each store keeps a fixture per schema version: its contents after [`fill`], as text. A test loads
//! every fixture, opens it with this build, and calls [`check`].

// A fixture fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::chain::{Continuation, Dedup, JobLinks};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, redrive};
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, HolderId, JobId, Queue, QueueName};
use tidemill_core::store::runs::{AfterCommit, StartRunParams};
use tidemill_core::store::{Due, NewJob, Store};
use tidemill_core::workflow::{RunId, RunStatus};

use crate::conformance::QueueHarness;
use crate::conformance::harness::{
    JobSpec, activity, completed, continue_with, dead, done, next, order_of, timer,
};

/// Records outlive every fixture: 50 years.
const KEPT: Duration = Duration::from_secs(50 * 365 * 24 * 60 * 60);

/// A time that no test reaches: 1 January 2100.
const FAR: Timestamp = Timestamp(4_102_444_800_000);

/// The lease of the job whose worker dies.
const SHORT_LEASE: Duration = Duration::from_secs(1);

/// Fills an empty store with jobs, chains and a run.
///
/// # Panics
/// If a verb has another result than expected.
pub async fn fill(store: Arc<dyn Store>) {
    let jobs = on(&store, "jobs");
    jobs.enqueue(kept_job("done")).await;
    jobs.settle(&jobs.claim_one().await, done()).await;
    jobs.enqueue(job("dead")).await;
    jobs.settle(&jobs.claim_one().await, dead("fixture")).await;
    jobs.enqueue(kept_job("chain")).await;
    jobs.settle(&jobs.claim_one().await, continue_with(second_step())).await;
    let links = JobLinks { after: vec![id("chain")], dedup: None };
    jobs.enqueue(NewJob { links, ..kept_job("blocked") }).await;
    jobs.enqueue(job_due("scheduled", Due::In(Duration::from_millis(1)))).await;
    jobs.enqueue(job_due("far", Due::At(FAR))).await;
    fill_queues(&store).await;
    fill_run(&jobs).await;
}

/// One job each on queues of their own: crashed, paused, at most once, deduplicated.
async fn fill_queues(store: &Arc<dyn Store>) {
    let crashed = on(store, "crashed").with_lease(SHORT_LEASE);
    crashed.enqueue(job("crashed")).await;
    crashed.claim_one().await;
    let paused = on(store, "paused");
    paused.enqueue(job("paused")).await;
    paused.store.pause(&paused.queue).await.unwrap();
    at_most_once(store).enqueue(job("once")).await;
    let links = JobLinks { after: Vec::new(), dedup: Some(Dedup::open("key")) };
    let deduplicated = NewJob { links, generated_id: true, ..kept_job("deduplicated") };
    on(store, "deduplicated").enqueue(deduplicated).await;
}

/// A run with a waiting activity, a timer and a signal that no task has seen.
async fn fill_run(jobs: &QueueHarness) {
    let run = jobs.start_run(StartRunParams { keep: KEPT, ..order_of(run()) }).await;
    let task = jobs.task_of(&run).await;
    jobs.commit(&task, vec![activity(&run, 1), timer(2, FAR)], AfterCommit::Running).await;
    jobs.signal(&run, [1]).await;
}

/// Checks that everything that [`fill`] left works, maybe years later.
///
/// # Panics
/// If it does not.
pub async fn check(store: Arc<dyn Store>) {
    let jobs = on(&store, "jobs");
    assert_eq!(jobs.state(&id("done")).await, Some(JobState::Done), "the record");
    assert_eq!(jobs.state(&id("far")).await, Some(JobState::Scheduled));
    assert_eq!(jobs.state(&id("blocked")).await, Some(JobState::Blocked));
    check_chain(&jobs).await;
    check_dead_letter(&jobs).await;
    check_scheduled(&jobs).await;
    check_queues(&store).await;
    check_run(&jobs).await;
}

async fn check_chain(jobs: &QueueHarness) {
    let second = jobs.claim_chain(&id("chain")).await;
    assert_eq!(second.body.as_ref().unwrap().kind().as_str(), "second");
    jobs.settle(&second, done()).await;
    assert_eq!(jobs.state(&id("chain")).await, Some(JobState::Done));
    jobs.settle(&jobs.claim_chain(&id("blocked")).await, done()).await;
}

async fn check_dead_letter(jobs: &QueueHarness) {
    let letter = jobs.letter(&id("dead")).await;
    assert_eq!(letter.last_error.as_deref(), Some("error of fixture"));
    assert_eq!(redrive(&*jobs.store, &jobs.queue, &DeadLetterFilter::default()).await.unwrap(), 1);
    jobs.settle(&jobs.claim_chain(&id("dead")).await, done()).await;
}

async fn check_scheduled(jobs: &QueueHarness) {
    let claimed = jobs.claim_when_due(1).await;
    assert_eq!(claimed[0].lease.job, id("scheduled"));
    jobs.settle(&claimed[0], done()).await;
    assert_eq!(jobs.store.cancel(&id("far")).await.unwrap(), tidemill_core::store::Cancelled::Removed);
    jobs.assert_counts([0, 0, 0, 0]).await;
}

async fn check_queues(store: &Arc<dyn Store>) {
    let crashed = on(store, "crashed").with_lease(SHORT_LEASE);
    crashed.expire_and_rescue(1).await;
    let again = crashed.claim_when_due(1).await;
    assert_eq!(again[0].body.as_ref().unwrap().attempts(), 1, "the crash counts");
    let paused = on(store, "paused");
    assert!(paused.counts().await.paused);
    paused.store.resume(&paused.queue).await.unwrap();
    assert_eq!(paused.claim_one().await.lease.job, id("paused"));
    assert_eq!(at_most_once(store).claim_one().await.lease.job, id("once"));
    let deduplicated = on(store, "deduplicated");
    assert_eq!(deduplicated.start_once(Dedup::open("key")).await, (false, id("deduplicated")));
}

async fn check_run(jobs: &QueueHarness) {
    let run = run();
    assert!(!jobs.journal(&run).await.is_empty());
    let activities = jobs.on_activities();
    activities.settle(&activities.claim_one().await, done()).await;
    jobs.signal(&run, [2]).await;
    for number in [1, 2] {
        let task = jobs.task_of(&run).await;
        assert_eq!(task.signals(), [number]);
        let then = if number == 1 { AfterCommit::Running } else { completed("1") };
        jobs.commit(&task, Vec::new(), then).await;
    }
    assert_eq!(jobs.run(&run).await.status, RunStatus::Completed);
}

fn on(store: &Arc<dyn Store>, queue: &str) -> QueueHarness {
    let queue = Queue { name: QueueName::new(queue).expect("a queue"), guarantee: Guarantee::AtLeastOnce };
    let worker = HolderId::new("fixture-worker").expect("a holder");
    QueueHarness { worker, ..QueueHarness::new(store.clone(), queue) }
}

fn at_most_once(store: &Arc<dyn Store>) -> QueueHarness {
    let jobs = on(store, "once");
    let queue = Queue { guarantee: Guarantee::AtMostOnce, ..jobs.queue.clone() };
    QueueHarness { queue, ..jobs }
}

fn id(name: &str) -> JobId {
    JobId::new(name).expect("a job id")
}

fn run() -> RunId {
    RunId::new("order-1").expect("a run id")
}

fn job(name: &str) -> NewJob {
    JobSpec::default().job_with_id(id(name))
}

fn job_due(name: &str, due: Due) -> NewJob {
    JobSpec { due, ..JobSpec::default() }.job_with_id(id(name))
}

fn kept_job(name: &str) -> NewJob {
    JobSpec { keep: Some(KEPT), ..JobSpec::default() }.job_with_id(id(name))
}

fn second_step() -> Continuation {
    next("second")
}

/// The fixtures of one store: files `v1.…`, `v2.…` in a directory.
#[derive(Debug)]
pub struct Fixtures {
    directory: PathBuf,
    extension: &'static str,
}

impl Fixtures {
    /// The fixtures in `tests/fixtures` of a crate.
    pub fn new(crate_directory: &str, extension: &'static str) -> Self {
        Self { directory: Path::new(crate_directory).join("tests/fixtures"), extension }
    }

    /// The fixture of a schema version.
    pub fn read(&self, version: usize) -> Option<String> {
        std::fs::read_to_string(self.path(version)).ok()
    }

    /// All fixtures, with their versions.
    pub fn all(&self) -> Vec<(usize, String)> {
        (1..=MAX_VERSION).filter_map(|version| Some((version, self.read(version)?))).collect()
    }

    /// Writes the fixture of a new schema version.
    ///
    /// # Panics
    /// Always: the new file has to be committed.
    pub fn write(&self, version: usize, text: &str) -> ! {
        std::fs::create_dir_all(&self.directory).expect("a directory for fixtures");
        let path = self.path(version);
        std::fs::write(&path, text).expect("the fixture is written");
        panic!("schema version {version} had no fixture: {} is new, commit it", path.display());
    }

    fn path(&self, version: usize) -> PathBuf {
        self.directory.join(format!("v{version}.{}", self.extension))
    }
}

/// More versions than any store has.
const MAX_VERSION: usize = 1000;
