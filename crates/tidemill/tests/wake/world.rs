//! A database, a Redis server beside it, and workers that would sleep for an hour.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::job::JobState;
use tidemill::{
    Client, Connector, Fail, Job, JobId, Listen, Namespace, NoTransport, PollInterval, Queue, QueueName,
    Store, Worker, WorkerError,
};
use tidemill_testkit::servers::{Redis, shared_postgres};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A test that waits longer than this waits for ever.
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

    fn connector(&self) -> Connector {
        tidemill::connector(&self.database).unwrap()
    }

    /// A process that is woken through Redis or not at all: it looks by itself once an hour.
    pub(crate) async fn woken(&self) -> Client {
        let connector = self.connector().pace(PollInterval::new(HOUR, HOUR)).unwrap();
        self.open(connector).await
    }

    /// A process that is woken through Redis, and looks by itself as usual.
    pub(crate) async fn usual(&self) -> Client {
        self.open(self.connector()).await
    }

    async fn open(&self, connector: Connector) -> Client {
        let connector = connector.wake(self.redis.url().as_str()).unwrap();
        connector.namespace(Namespace::new("queuert:").unwrap()).connect().await.unwrap()
    }

    /// A process that is woken by PostgreSQL itself.
    pub(crate) async fn listening(&self) -> Client {
        self.connector().wake(Listen).unwrap().connect().await.unwrap()
    }

    /// A process that tells nobody of what it does.
    pub(crate) async fn silent(&self) -> Client {
        self.connector().wake(NoTransport).unwrap().connect().await.unwrap()
    }

    pub(crate) fn subscribers(&self, channel: &str) -> u64 {
        // The answer is a list; a script makes a number of it.
        let count = "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]";
        self.redis.command(&["EVAL", count, "0", channel]).unwrap().parse().unwrap()
    }

    /// How many hints there are that would stay for ever, and how many there are at all.
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

/// A worker in the background, and what it has begun.
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

/// Adds a job of which nobody hears, to a worker that waits: one that had just begun to listen may still have
/// looked for itself, and then it is done again.
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

/// Looks until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < FOR_EVER, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
