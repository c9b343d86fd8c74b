//! A database, a Redis server, and workers that poll once an hour.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::job::JobState;
use tidemill::store::Store;
use tidemill::wake::{ListenNotify, NoTransport, PollInterval};
use tidemill::{Client, ClientBuilder, Fail, Job, JobId, Namespace, Queue, QueueName, Worker, WorkerError};
use tidemill_testkit::servers::{Redis, shared_postgres};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Timeout of every wait.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ping(pub(crate) u32);

impl Job for Ping {
    const KIND: &'static str = "ping";
    const QUEUE: &'static str = "mail";
    type Output = ();
}

pub(crate) fn queue() -> Queue {
    Queue::at_least_once(QueueName::new(Ping::QUEUE).unwrap())
}

pub(crate) struct World {
    pub(crate) redis: Redis,
    pub(crate) database: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { redis: Redis::start().unwrap(), database: shared_postgres().database().unwrap() }
    }

    fn builder(&self) -> ClientBuilder {
        tidemill::ClientBuilder::new(&self.database)
    }

    /// A process that Redis wakes: it polls once an hour.
    pub(crate) async fn woken(&self) -> Client {
        let builder = self.builder().poll_interval(PollInterval::new(HOUR, HOUR));
        self.open(builder).await
    }

    /// A process that Redis wakes, with the usual poll interval.
    pub(crate) async fn usual(&self) -> Client {
        self.open(self.builder()).await
    }

    async fn open(&self, builder: ClientBuilder) -> Client {
        let builder = builder.wake(self.redis.url().as_str());
        builder.namespace(Namespace::new("queuert:").unwrap()).connect().await.unwrap()
    }

    /// A process that PostgreSQL's LISTEN wakes.
    pub(crate) async fn listening(&self) -> Client {
        self.builder().wake(ListenNotify).connect().await.unwrap()
    }

    /// A process that publishes no wake-ups.
    pub(crate) async fn silent(&self) -> Client {
        self.builder().wake(NoTransport).connect().await.unwrap()
    }

    pub(crate) fn subscribers(&self, channel: &str) -> u64 {
        // The answer is a list; a script extracts the number.
        let count = "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
        self.redis.command(&["EVAL", count, "0", channel]).unwrap().parse().unwrap()
    }

    /// The number of hints without expiry, and of all hints.
    pub(crate) fn hints(&self) -> (u64, u64) {
        let count = "local immortal, all = 0, redis.call('KEYS', 'queuert:hint:*')
            for _, key in ipairs(all) do
                if redis.call('PTTL', key) == -1 then immortal = immortal + 1 end
            end
            return immortal .. ' ' .. #all";
        let answer = self.redis.command(&["EVAL", count, "0"]).unwrap();
        let (immortal, all) = answer.split_once(' ').unwrap();
        (immortal.parse().unwrap(), all.parse().unwrap())
    }
}

/// A worker in the background, and the jobs that it has started.
pub(crate) struct Background {
    pub(crate) begun: mpsc::UnboundedReceiver<u32>,
    stop: CancellationToken,
    run: JoinHandle<Result<tidemill::Report, WorkerError>>,
}

impl Background {
    pub(crate) fn start(client: &Client) -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let handler = move |ping: Ping| {
            let begin = begin.clone();
            async move {
                let _ = begin.send(ping.0);
                Ok::<_, Fail>(())
            }
        };
        let stop = CancellationToken::new();
        let worker = Worker::builder(client).handle(handler).queue(Ping::QUEUE, 4);
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { begun, stop, run }
    }

    pub(crate) async fn next(&mut self) -> u32 {
        tokio::time::timeout(FOR_EVER, self.begun.recv()).await.unwrap().unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(FOR_EVER, self.run).await.unwrap().unwrap().unwrap();
    }
}

/// Enqueues a job without a wake-up while the worker waits. A worker that has just subscribed may
/// still poll and find it; then another job is enqueued.
pub(crate) async fn unheard(silent: &Client, worker: &mut Background, number: u32) -> JobId {
    loop {
        let id = silent.job(Ping(number)).enqueue().await.unwrap().id().clone();
        match tokio::time::timeout(Duration::from_millis(500), worker.begun.recv()).await {
            Err(_) => return id,
            Ok(begun) => assert_eq!(begun, Some(number)),
        }
    }
}

pub(crate) async fn is_ready(store: &Arc<dyn Store>, job: &JobId) -> bool {
    store.get_job(job).await.unwrap().is_some_and(|info| info.state == JobState::Ready)
}

/// Polls until a condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < FOR_EVER, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
