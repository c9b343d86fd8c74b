//! The answer to a claim is lost and the worker lives on: the job runs at once, and no attempt is
//! counted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Guarantee, Job, JobContext, Report, Worker, WorkerBuilder, WorkerError};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::{Redis, RedisCluster, RedisOptions, shared_postgres};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than any of these tests, so a test that waits for its end fails.
const LEASE: Duration = Duration::from_secs(300);

/// Timeout of every wait.
const FOR_EVER: Duration = Duration::from_secs(100);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ping(u32);

impl Job for Ping {
    const KIND: &'static str = "ping";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 1;
    type Output = ();
}

/// A worker in the background, and the jobs that it has started, with the number of the attempt.
struct Background {
    begun: mpsc::UnboundedReceiver<(u32, u32)>,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    fn start(client: &Client, queue: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let handler = move |ping: Ping, cx: JobContext| {
            let begin = begin.clone();
            async move {
                let _ = begin.send((ping.0, cx.attempt()));
                Ok::<_, Fail>(())
            }
        };
        let stop = CancellationToken::new();
        let worker = queue(Worker::builder(client).handle(handler).lease(LEASE));
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { begun, stop, run }
    }

    async fn next(&mut self) -> (u32, u32) {
        tokio::time::timeout(FOR_EVER, self.begun.recv()).await.unwrap().unwrap()
    }

    async fn stop(self) -> Report {
        self.stop.cancel();
        tokio::time::timeout(FOR_EVER, self.run).await.unwrap().unwrap().unwrap()
    }
}

async fn dropped(proxy: &Proxy) {
    while proxy.answers_dropped() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Loses the answer to the first request of a worker that contains `text`, and checks that its job
/// runs.
async fn survives(url: &str, port: u16, text: &str, queue: Serves, enqueue: Adds) {
    let (direct, proxy) = (tidemill::connect(url).await.unwrap(), Proxy::to(port).await.unwrap());
    let through = tidemill::connect(&proxy.url(url)).await.unwrap();
    if matches!(enqueue, Adds::Before(_)) {
        enqueue.add(&direct).await;
    }
    proxy.drop_answer_to(text);
    let mut worker = Background::start(&through, queue);
    if matches!(enqueue, Adds::After(_)) {
        // Usually long enough for the worker to block first; if not, the test shows the same.
        tokio::time::sleep(Duration::from_millis(300)).await;
        enqueue.add(&direct).await;
    }
    assert_eq!(worker.next().await, (7, 1), "{text}");
    tokio::time::timeout(FOR_EVER, dropped(&proxy)).await.unwrap();
    let report = worker.stop().await;
    assert_eq!((report.total.done, report.total.dead), (1, 0), "{text}");
}

/// A worker starts a job after fewer requests than these.
const REQUESTS: usize = 24;

/// The queue of a worker, and its guarantee.
type Serves = fn(WorkerBuilder) -> WorkerBuilder;

/// How jobs are claimed.
const WAYS: [(Serves, Kind); 4] = [
    (plain, Kind::Stream),
    (ahead, Kind::Stream),
    (at_most_once, Kind::Untracked),
    (at_most_once, Kind::Tracked),
];

/// When the job is enqueued, and on which queue.
enum Adds {
    Before(Kind),
    After(Kind),
}

enum Kind {
    /// At least once.
    Stream,
    /// At most once.
    Untracked,
    /// At most once, and tracked by its id.
    Tracked,
}

impl Adds {
    async fn add(&self, client: &Client) {
        let (Self::Before(kind) | Self::After(kind)) = self;
        let job = client.job(Ping(7));
        let job = match kind {
            Kind::Stream => job,
            Kind::Untracked => job.guarantee(Guarantee::AtMostOnce),
            Kind::Tracked => job.guarantee(Guarantee::AtMostOnce).tracked(true),
        };
        job.enqueue().await.unwrap();
    }
}

fn plain(worker: WorkerBuilder) -> WorkerBuilder {
    worker.queue(Ping::QUEUE, 4)
}

fn ahead(worker: WorkerBuilder) -> WorkerBuilder {
    worker.queue(Ping::QUEUE, 1).prefetch(4)
}

fn at_most_once(worker: WorkerBuilder) -> WorkerBuilder {
    worker.at_most_once(Ping::QUEUE, 4)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_read_that_waits_loses_nothing() {
    let redis = Redis::start().unwrap();
    survives(&redis.url(), redis.port(), "XREADGROUP", plain, Adds::After(Kind::Stream)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_read_that_finds_a_job_loses_nothing() {
    for queue in [plain, ahead] {
        let redis = Redis::start().unwrap();
        survives(&redis.url(), redis.port(), "XREADGROUP", queue, Adds::Before(Kind::Stream)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_pop_from_a_list_loses_nothing() {
    for kind in [Kind::Untracked, Kind::Tracked] {
        let redis = Redis::start().unwrap();
        survives(&redis.url(), redis.port(), ":takers", at_most_once, Adds::Before(kind)).await;
    }
}

/// The worker has recovered the jobs of a pop whose answer was lost. Then the answer to the request
/// that extends their leases is lost.
#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_recovered_pop_loses_nothing() {
    const JOBS: u32 = 20;
    let redis = Redis::start().unwrap();
    let direct = tidemill::connect(&redis.url()).await.unwrap();
    let add = async |number: u32| {
        let job = direct.job(Ping(number)).guarantee(Guarantee::AtMostOnce).tracked(number == 0);
        job.enqueue().await.unwrap();
    };
    // The server has cached the scripts from now on.
    add(0).await;
    let mut first = Background::start(&direct, at_most_once);
    first.next().await;
    first.stop().await;
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let through = tidemill::connect(&proxy.url(&redis.url())).await.unwrap();
    for number in 0..JOBS {
        add(number).await;
    }
    proxy.drop_answer_to(":takers");
    let mut worker = Background::start(&through, |worker| worker.at_most_once(Ping::QUEUE, 4).prefetch(60));
    tokio::time::timeout(FOR_EVER, dropped(&proxy)).await.unwrap();
    let extended = "tidemill:queue:mail:untracked";
    proxy.drop_answer_to(&format!(":running\r\n${}\r\n{extended}", extended.len()));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..JOBS {
        seen.insert(worker.next().await.0);
    }
    assert_eq!(seen.len(), JOBS as usize);
    assert_eq!(proxy.answers_dropped(), 2);
    assert_eq!(worker.stop().await.total.done, u64::from(JOBS));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_pop_that_waits_loses_nothing() {
    for kind in [Kind::Untracked, Kind::Tracked] {
        let redis = Redis::start().unwrap();
        survives(&redis.url(), redis.port(), "BLMOVE", at_most_once, Adds::After(kind)).await;
    }
}

/// Loses the answer to one request of a worker after the other, and checks each time that its job
/// runs. A server does not know a script or a statement at first, so the request that names it is
/// not always the one that has the effect.
async fn survives_each(url: &str, port: u16, queue: Serves, kind: Kind) {
    let (direct, proxy) = (tidemill::connect(url).await.unwrap(), Proxy::to(port).await.unwrap());
    let adds = Adds::Before(kind);
    for number in 0..REQUESTS {
        let through = tidemill::connect(&proxy.url(url)).await.unwrap();
        adds.add(&direct).await;
        proxy.drop_answer_after(number);
        let mut worker = Background::start(&through, queue);
        assert_eq!(worker.next().await, (7, 1), "request {number}");
        proxy.drop_nothing();
        let report = worker.stop().await;
        assert_eq!((report.total.done, report.total.dead), (1, 0), "request {number}");
    }
    assert!(proxy.answers_dropped() > 3, "few requests were made before the job began");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_no_request_of_a_worker_loses_a_job() {
    for (queue, kind) in WAYS {
        let redis = Redis::start().unwrap();
        survives_each(&redis.url(), redis.port(), queue, kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_no_request_of_a_worker_loses_a_job() {
    for (queue, kind) in WAYS {
        let (url, port) = (shared_postgres().database().unwrap(), shared_postgres().port());
        survives_each(&url, port, queue, kind).await;
    }
}

/// Closes all connections of clients again and again while jobs run. No close counts as a crash,
/// and no job waits for a lease.
async fn survives_kills(url: &str, kill: impl Fn()) {
    const JOBS: u32 = 400;
    let client = tidemill::connect(url).await.unwrap();
    let mut worker = Background::start(&client, |worker| worker.queue(Ping::QUEUE, 8).prefetch(4));
    let producer = tidemill::connect(url).await.unwrap();
    let adds = tokio::spawn(async move {
        for number in 0..JOBS {
            let job = || producer.job(Ping(number)).id(&format!("j{number}")).enqueue();
            while job().await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < JOBS as usize {
        tokio::select! {
            (number, attempt) = worker.next() => {
                assert_eq!(attempt, 1);
                seen.insert(number);
            }
            () = tokio::time::sleep(Duration::from_millis(80)) => kill(),
        }
    }
    adds.await.unwrap();
    assert_eq!(worker.stop().await.total.dead, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_no_kill_of_connections_costs_a_job_its_attempt() {
    let redis = Redis::start().unwrap();
    survives_kills(&redis.url(), || drop(redis.command(&["CLIENT", "KILL", "TYPE", "normal"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_no_kill_of_connections_costs_a_job_its_attempt() {
    let cluster = RedisCluster::with(RedisOptions::default()).unwrap();
    survives_kills(&cluster.url(), || {
        let node = &cluster.nodes()[next_node()];
        drop(node.command(&["CLIENT", "KILL", "TYPE", "normal"]));
    })
    .await;
}

/// One of three nodes after the other.
fn next_node() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % 3
}
