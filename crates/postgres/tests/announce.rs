//! Wake-ups after a lost response: the change took place, and no wake-up was sent.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::{
    AfterCommit, CloseRun, Delivered, Delivery, StartRunResult, TerminateParams,
};
use tidemill_core::store::{
    Cancelled, ClaimParams, CompleteParams, Completed, Deleted, EnqueueParams, Enqueued, Inspect, JobRecord,
    Jobs, NewJob, RedriveItem, RedriveParams, Runs, SettleParams, Verdict,
};
use tidemill_core::wake::{Wake, WakeStream};
use tidemill_core::workflow::{RunId, RunStatus};
use tidemill_core::{HolderId, JobId, Store, Timestamp};
use tidemill_postgres::PostgresStore;
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::{JobSpec, order_of, signal};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::shared_postgres;
use world::{chain, connect, queue};

const FOR_EVER: Duration = Duration::from_secs(60);

const LEASE: Duration = Duration::from_secs(600);

/// A store and the wake-ups that it publishes.
struct Heard {
    store: PostgresStore,
    wakes: WakeStream,
}

impl Heard {
    async fn new() -> Self {
        Self::at(&shared_postgres().database().unwrap()).await
    }

    async fn at(url: &str) -> Self {
        let store = connect(url).await;
        let wakes = store.subscribe();
        let mut heard = Self { store, wakes };
        heard.hear(|wake| *wake == Wake::Everything).await;
        heard
    }

    async fn hear(&mut self, meant: impl Fn(&Wake) -> bool) {
        let heard = async { while !meant(&self.wakes.next().await.unwrap()) {} };
        tokio::time::timeout(FOR_EVER, heard).await.unwrap();
    }

    /// Repeats a call whose response was lost, and expects its wake-ups once more.
    async fn hear_again<T>(&mut self, meant: &Wake, act: impl AsyncFn(&PostgresStore) -> T) -> (T, T) {
        let first = act(&self.store).await;
        self.hear(|wake| wake == meant).await;
        while self.wakes.next().now_or_never().is_some() {}
        let again = act(&self.store).await;
        self.hear(|wake| wake == meant || *wake == Wake::Everything).await;
        (first, again)
    }
}

async fn enqueue(store: &PostgresStore, job: &NewJob) -> Enqueued {
    let (queue, jobs) = (queue("mail"), [job.clone()]);
    store.enqueue(EnqueueParams { queue: &queue, jobs: &jobs }).await.unwrap().remove(0)
}

fn done(job: &JobId) -> Change {
    Change::Finish(Some(JobRecord {
        job: job.chain(),
        state: JobState::Done,
        output: "1".into(),
        error: None,
        finished_at: Timestamp(1),
        keep: LEASE,
    }))
}

#[tokio::test]
async fn a_repeated_enqueue_is_announced_again() {
    let (mut heard, job) = (Heard::new().await, chain());
    let meant = Wake::Queue { queue: queue("mail"), jobs: 1 };
    let answers = heard.hear_again(&meant, async |store| enqueue(store, &job).await).await;
    assert_eq!(answers, (Enqueued::Created, Enqueued::Exists));
}

#[tokio::test]
async fn a_repeated_settlement_is_announced_again() {
    let (mut heard, job) = (Heard::new().await, chain());
    enqueue(&heard.store, &job).await;
    let (mail, worker) = (queue("mail"), HolderId::from_process("host", 1, 0));
    let claimed = heard.store.claim(ClaimParams::now(&mail, &worker, LEASE, 1)).await.unwrap().remove(0);
    let settlement = [Settlement { lease: claimed.lease, change: done(&job.id) }];
    let settle = async |store: &PostgresStore| {
        store.settle(SettleParams::current(&settlement)).await.unwrap().remove(0)
    };
    let verdicts = heard.hear_again(&Wake::Finished(job.id.clone()), settle).await;
    assert_eq!(verdicts, (Verdict::Accepted, Verdict::LeaseLost));
}

#[tokio::test]
async fn a_repeated_cancel_delete_or_complete_is_announced_again() {
    let mut heard = Heard::new().await;
    let [one, two, three] = [chain(), chain(), chain()];
    for job in [&one, &two, &three] {
        enqueue(&heard.store, job).await;
    }
    let cancel = async |store: &PostgresStore| store.cancel(&one.id).await.unwrap();
    let answers = heard.hear_again(&Wake::Finished(one.id.clone()), cancel).await;
    assert_eq!(answers, (Cancelled::Removed, Cancelled::NotFound));
    let delete = async |store: &PostgresStore| store.delete(&two.id).await.unwrap();
    let answers = heard.hear_again(&Wake::Finished(two.id.clone()), delete).await;
    assert_eq!(answers, (Deleted::Yes, Deleted::NotFound));
    let change = done(&three.id);
    let complete = async |store: &PostgresStore| {
        store.complete(CompleteParams { job: &three.id, change: &change }).await.unwrap()
    };
    let answers = heard.hear_again(&Wake::Finished(three.id.clone()), complete).await;
    assert_eq!(answers, (Completed::Yes, Completed::Ended(JobState::Done)));
}

#[tokio::test]
async fn a_repeated_start_delivery_or_end_of_a_run_is_announced_again() {
    let url = shared_postgres().database().unwrap();
    let mut heard = Heard::at(&url).await;
    let scene = QueueHarness::new(Arc::new(connect(&url).await), queue("mail"));
    let new = order_of(RunId::new("r").unwrap());
    let tasks = Wake::Queue { queue: new.queue.clone(), jobs: 1 };
    let start = async |store: &PostgresStore| store.start_run(&new).await.unwrap();
    let answers = heard.hear_again(&tasks, start).await;
    assert_eq!(answers, (StartRunResult::Created, StartRunResult::Existing(new.run.clone())));
    scene.commit(&scene.task_of(&new.run).await, Vec::new(), AfterCommit::Running).await;
    let once = [Delivery { id: Some("once".into()), ..signal(&new.run, 1) }];
    let deliver = async |store: &PostgresStore| store.deliver(&once).await.unwrap().remove(0);
    let answers = heard.hear_again(&tasks, deliver).await;
    assert_eq!(answers, (Delivered::Yes, Delivered::Duplicate));
    let close =
        CloseRun { status: RunStatus::Terminated, output: "".into(), error: None, notify_parent: None };
    let cursor = scene.store.get_run(&new.run).await.unwrap().unwrap().cursor;
    let terminate = async |store: &PostgresStore| {
        store.terminate(TerminateParams { run: &new.run, cursor, effects: &[], close: &close }).await.unwrap()
    };
    let answers = heard.hear_again(&Wake::Finished(new.run.task()), terminate).await;
    assert_eq!(answers, (Verdict::Accepted, Verdict::LeaseLost));
}

#[tokio::test]
async fn a_repeated_redrive_is_announced_again() {
    let url = shared_postgres().database().unwrap();
    let mut heard = Heard::at(&url).await;
    let scene = QueueHarness::new(Arc::new(connect(&url).await), queue("mail"));
    let traits = JobSpec::default();
    let id = scene.bury(&traits, "bad").await;
    let letter = scene.letter(&id).await.bytes;
    let letters = [RedriveItem { job: id.clone(), letter, envelope: traits.job_with_id(id).envelope }];
    let mail = queue("mail");
    let redrive = async |store: &PostgresStore| {
        store.redrive(RedriveParams { queue: &mail, letters: &letters }).await.unwrap()
    };
    let meant = Wake::Queue { queue: queue("mail"), jobs: 1 };
    assert_eq!(heard.hear_again(&meant, redrive).await, (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_answer_that_was_lost_everybody_looks() {
    let server = shared_postgres();
    let url = server.database().unwrap();
    let proxy = Proxy::to(server.port()).await.unwrap();
    let (here, there) = (connect(&proxy.url(&url)).await, connect(&url).await);
    let mut wakes = there.subscribe();
    while wakes.next().await.unwrap() != Wake::Everything {}
    let job = chain();
    enqueue(&there, &job).await;
    proxy.drop_answer_to(job.id.as_str());
    assert!(here.cancel(&job.id).await.is_err());
    assert_eq!(proxy.answers_dropped(), 1);
    let heard = async { while wakes.next().await.unwrap() != Wake::Everything {} };
    tokio::time::timeout(FOR_EVER, heard).await.unwrap();
    assert!(there.get_job(&job.id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_enqueue_had_to_be_repeated_is_given_to_a_waiting_claim() {
    let server = shared_postgres();
    let url = server.database().unwrap();
    let proxy = Proxy::to(server.port()).await.unwrap();
    let (here, there) = (connect(&proxy.url(&url)).await, connect(&url).await);
    let (mail, worker) = (queue("mail"), HolderId::from_process("host", 1, 0));
    let job = chain();
    proxy.drop_answer_to(job.id.as_str());
    enqueue(&here, &job).await;
    assert_eq!(proxy.answers_dropped(), 1);
    let claimed = there
        .claim(ClaimParams { wait: FOR_EVER, ..ClaimParams::now(&mail, &worker, LEASE, 1) })
        .await
        .unwrap();
    assert_eq!(claimed[0].lease.job, job.id);
}
