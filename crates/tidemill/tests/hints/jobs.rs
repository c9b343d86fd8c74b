//! Forged wake-ups about running jobs.

use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tidemill::job::JobState;
use tidemill::store::{Cancelled, Wake};
use tidemill::{Client, EventKind, Fail, Job, JobContext, JobId, Report, Worker, WorkerError};
use tidemill_testkit::servers::Redis;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::place::Place;

/// Timeout of every wait.
const FOR_EVER: Duration = Duration::from_secs(60);

/// No lease expires here.
const LEASE: Duration = Duration::from_secs(3600);

/// Runs until it is released.
#[derive(Serialize, Deserialize)]
struct Hold(u32);

impl Job for Hold {
    const KIND: &'static str = "hold";
    const QUEUE: &'static str = "mail";
    type Output = u32;
}

struct Background {
    begun: mpsc::UnboundedReceiver<JobId>,
    ended: broadcast::Receiver<tidemill::Event>,
    release: watch::Sender<bool>,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    fn start(client: &Client) -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let (release, released) = watch::channel(false);
        let handler = move |hold: Hold, cx: JobContext| {
            let (begin, mut released) = (begin.clone(), released.clone());
            async move {
                begin.send(cx.id().clone()).unwrap();
                released.wait_for(|released| *released).await.unwrap();
                Ok::<_, Fail>(hold.0)
            }
        };
        let worker = Worker::builder(client).handle(handler).queue(Hold::QUEUE, 8).lease(LEASE);
        let (ended, stop) = (worker.events(), CancellationToken::new());
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { begun, ended, release, stop, run }
    }

    async fn begun(&mut self) -> JobId {
        tokio::time::timeout(FOR_EVER, self.begun.recv()).await.unwrap().unwrap()
    }

    async fn ended(&mut self) -> (JobId, EventKind) {
        let event = tokio::time::timeout(FOR_EVER, self.ended.recv()).await.unwrap().unwrap();
        (event.job, event.outcome)
    }

    async fn stop(self) -> Report {
        self.stop.cancel();
        self.run.await.unwrap().unwrap()
    }
}

/// Every kind of message about a job, and some invalid ones.
fn messages(job: &JobId) -> Vec<String> {
    let about = ["cancel", "lost", "finished"].map(|word| format!("{word} {job}"));
    let task = ["cancel", "lost"].map(|word| format!("{word} {job}!task"));
    let others = [
        "queue at_least_once mail 5",
        "queue at_least_once mail 18446744073709551615",
        "sooner at_least_once mail",
        "member jobs:nobody",
        "places chromium",
        "everything",
        "cancel",
        "what is this",
        "",
    ];
    about.into_iter().chain(task).chain(others.map(str::to_owned)).collect()
}

async fn nothing_ends_but_what_is_cancelled(place: Place) {
    let client = &place.client;
    let mut worker = Background::start(client);
    let kept = client.job(Hold(1)).keep_result(FOR_EVER * 10).enqueue().await.unwrap();
    let running = worker.begun().await;
    assert_eq!(running, *kept.id());
    for message in messages(&running).iter().cycle().take(3 * messages(&running).len()) {
        place.publish(message).await;
        place.publish_foreign(running.as_str()).await;
    }
    // A later announcement arrives after them: a job in the index, and one that is not.
    client.job(Hold(2)).id("tracked").enqueue().await.unwrap();
    cancel_next(&mut worker, client).await;
    client.jobs([Hold(3)]).enqueue().await.unwrap();
    cancel_next(&mut worker, client).await;
    assert_eq!(
        client.store().get_job(&running).await.unwrap().map(|info| info.state),
        Some(JobState::Running)
    );
    worker.release.send(true).unwrap();
    assert_eq!(worker.ended().await, (running, EventKind::Done));
    assert_eq!(kept.wait_for(FOR_EVER).await.unwrap(), 1);
    let report = worker.stop().await;
    let ended = (report.total.done, report.total.cancelled, report.total.lost);
    assert_eq!(ended, (1, 2, 0));
}

/// The next job starts, is cancelled, and stops.
async fn cancel_next(worker: &mut Background, client: &Client) {
    let job = worker.begun().await;
    assert_eq!(client.store().cancel(&job).await.unwrap(), Cancelled::Requested);
    // The wake-up may arrive before the worker has recorded the job. Then the next heartbeat finds
    // out.
    assert_eq!(worker.ended().await, (job.clone(), EventKind::Cancelled));
    assert_ne!(client.store().get_job(&job).await.unwrap().map(|info| info.state), Some(JobState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_ends_on_sqlite() {
    nothing_ends_but_what_is_cancelled(Place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_ends_on_redis() {
    nothing_ends_but_what_is_cancelled(Place::redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_ends_on_a_cluster() {
    nothing_ends_but_what_is_cancelled(Place::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_ends_on_postgres() {
    nothing_ends_but_what_is_cancelled(Place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_of_one_redis_database_is_not_announced_in_another() {
    let redis = Redis::start().unwrap();
    let here = Place::on_redis(&redis.url(), "same:").await;
    let there = Place::on_redis(&format!("{}/1", redis.url()), "same:").await;
    let mut wakes = here.client.store().subscribe();
    let (mut worker, mut other) = (Background::start(&here.client), Background::start(&there.client));
    for (client, worker) in [(&here.client, &mut worker), (&there.client, &mut other)] {
        client.job(Hold(1)).id("same").enqueue().await.unwrap();
        worker.begun().await;
    }
    cancel_again(&mut other, &there.client).await;
    here.client.job(Hold(2)).id("own").enqueue().await.unwrap();
    let own = worker.begun().await;
    here.client.store().cancel(&own).await.unwrap();
    assert_eq!(worker.ended().await, (own.clone(), EventKind::Cancelled));
    loop {
        let wake = tokio::time::timeout(FOR_EVER, wakes.next()).await.unwrap().unwrap();
        assert_ne!(wake, Wake::Cancel(JobId::new("same").unwrap()));
        if wake == Wake::Cancel(own.clone()) {
            break;
        }
    }
    worker.release.send(true).unwrap();
    assert_eq!(worker.ended().await.1, EventKind::Done);
}

async fn cancel_again(worker: &mut Background, client: &Client) {
    let same = JobId::new("same").unwrap();
    assert_eq!(client.store().cancel(&same).await.unwrap(), Cancelled::Requested);
    assert_eq!(worker.ended().await, (same, EventKind::Cancelled));
}
