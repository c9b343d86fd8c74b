//! Wake-ups through a real server, and through a Cluster: what travels, what a hint is, and what is left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use redis::aio::MultiplexedConnection;
use tidemill_core::store::Severity;
use tidemill_core::wake::{Bus, PollInterval, Polled, Transport, Wake, WakeStream};
use tidemill_core::{Clock, JobId, Namespace, Queue, QueueName, Timestamp};
use tidemill_redis::{Hint, RedisOptions, RedisTransport};
use tidemill_testkit::conformance::until;
use tidemill_testkit::servers::{Redis, RedisCluster, shared_cluster, shared_redis};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(30);

fn queue(name: &str) -> Queue {
    Queue::at_least_once(QueueName::new(name).unwrap())
}

fn options(url: &str, namespace: &str) -> RedisOptions {
    RedisOptions::parse(url).unwrap().namespace(Namespace::new(namespace).unwrap())
}

/// The clock of this machine.
#[derive(Debug)]
struct LocalClock;

impl Clock for LocalClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A process: its bus and transport, and claims that wait for jobs.
struct Process {
    bus: Arc<Bus>,
    transport: Arc<RedisTransport>,
    /// How often its claims have polled.
    polls: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Process {
    async fn start(url: &str, namespace: &str) -> Self {
        Self::with(options(url, namespace)).await
    }

    async fn with(options: RedisOptions) -> Self {
        let transport = Arc::new(RedisTransport::connect(options).await.unwrap());
        let bus = Arc::new(Bus::with_transport(PollInterval::NEVER, Arc::new(LocalClock)));
        let mut tasks = JoinSet::new();
        let (run, run_bus) = (transport.clone(), bus.clone());
        tasks.spawn(async move { run.run(run_bus).await });
        Self { bus, transport, polls: Arc::default(), tasks }
    }

    fn publish(&self, wake: Wake) {
        self.bus.publish(wake);
    }

    /// Subscribes to events, and waits until the process receives them.
    async fn listen(&self) -> WakeStream {
        let mut wakes = self.bus.subscribe();
        assert_eq!(next(&mut wakes).await, Wake::Everything);
        wakes
    }

    /// Starts a claim that waits for jobs of a queue, and waits until the process receives their
    /// announcements.
    async fn claim(&mut self, name: &str, connection: &mut MultiplexedConnection, channel: &str) {
        self.spawn_claim(name);
        until("the subscription", || {
            let mut connection = connection.clone();
            async move { (subscribers(&mut connection, channel).await > 0).then_some(()) }
        })
        .await;
        // The poll for everything, after the subscription.
        until("the first polls", || async { (self.polls.load(Ordering::SeqCst) >= 2).then_some(()) }).await;
        self.polls.store(0, Ordering::SeqCst);
    }

    fn spawn_claim(&mut self, name: &str) {
        let (bus, polls, queue) = (self.bus.clone(), self.polls.clone(), queue(name));
        self.tasks.spawn(async move {
            loop {
                let permit = bus.wait_queues().poll_permit(&queue, &LocalClock).await;
                polls.fetch_add(1, Ordering::SeqCst);
                permit.finish(Ok(Polled::default())).unwrap();
            }
        });
    }

    /// Waits until its claims have polled this many times.
    async fn polled(&self, times: usize) {
        until("the polls", || async { (self.polls.load(Ordering::SeqCst) >= times).then_some(()) }).await;
    }
}

async fn connection(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn next(wakes: &mut WakeStream) -> Wake {
    tokio::time::timeout(PATIENCE, wakes.next()).await.unwrap().unwrap()
}

async fn subscribers(connection: &mut MultiplexedConnection, channel: &str) -> i64 {
    let counts: (String, i64) =
        redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query_async(connection).await.unwrap();
    counts.1
}

async fn what_one_tells_the_other_hears(url: &str, namespace: &str) {
    let (here, there) = (Process::start(url, namespace).await, Process::start(url, namespace).await);
    let mut events = there.listen().await;
    let job = JobId::generate();
    let wakes = [
        Wake::Finished(job.clone()),
        Wake::LeaseLost(job.clone()),
        Wake::Cancel(job),
        Wake::DueEarlier(queue("mail")),
        Wake::all_waiters(queue("mail")),
        Wake::Everything,
    ];
    for wake in wakes {
        here.publish(wake.clone());
        assert_eq!(next(&mut events).await, wake);
    }
    let client = redis::Client::open(url.replace("redis+cluster:", "redis:")).unwrap();
    let mut raw = client.get_async_pubsub().await.unwrap();
    raw.subscribe(format!("{namespace}sched")).await.unwrap();
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 2 });
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
    let (mut messages, mut shares) = (raw.on_message(), 0);
    // Both were told within a millisecond, or else there are two hints.
    while shares < 3 {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap();
        let text = message.get_payload::<String>().unwrap();
        let Some((hint, type_name)) = text.split_once(':') else { continue };
        assert_eq!(type_name, "mail");
        let hint: Hint = hint.parse().unwrap();
        while there.transport.take_hint(&hint).await {
            shares += 1;
        }
    }
    assert_eq!(shares, 3);
    assert_eq!(there.transport.ignored(), 0);
}

#[tokio::test]
async fn what_one_process_tells_the_other_hears() {
    what_one_tells_the_other_hears(&shared_redis().url(), "told:").await;
}

#[tokio::test]
async fn what_one_process_tells_the_other_hears_through_a_cluster() {
    what_one_tells_the_other_hears(&shared_cluster().url(), "told:").await;
}

#[tokio::test]
async fn a_process_does_not_hear_of_its_own_jobs() {
    let url = shared_redis().url();
    let mut direct = connection(&url).await;
    let (mut here, mut there) = (Process::start(&url, "own:").await, Process::start(&url, "own:").await);
    here.claim("mail", &mut direct, "own:sched").await;
    there.claim("mail", &mut direct, "own:sched").await;
    for round in 1..=20 {
        // One of two jobs is for the claim here. The other's share would be taken here as well.
        here.publish(Wake::Queue { queue: queue("mail"), jobs: 2 });
        there.polled(round).await;
        here.polled(round).await;
    }
    assert_eq!(here.polls.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn an_announcement_in_two_forms_is_heard_once_and_a_foreign_one_beside_it_as_well() {
    let url = shared_redis().url();
    let (here, mut there, mut direct) =
        (Process::start(&url, "twin:").await, Process::start(&url, "twin:").await, connection(&url).await);
    there.claim("mail", &mut direct, "twin:sched").await;
    let mut raw = redis::Client::open(url.as_str()).unwrap().get_async_pubsub().await.unwrap();
    raw.subscribe("twin:sched").await.unwrap();
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 3 });
    here.bus.flush().await;
    let mut messages = raw.on_message();
    let mut said = async || messages.next().await.unwrap().get_payload::<String>().unwrap();
    assert!(said().await.ends_with(":mail"));
    assert_eq!(said().await, "mail");
    there.polled(1).await;
    let _: i64 = redis::cmd("PUBLISH").arg("twin:sched").arg("mail").query_async(&mut direct).await.unwrap();
    there.polled(2).await;
    let counted: i64 = redis::cmd("GET").arg("twin:hint:mail").query_async(&mut direct).await.unwrap();
    assert_eq!(counted, 3);
    // One form alone, if the URL says so.
    assert_eq!(said().await, "mail");
    let old = Process::start(&format!("{url}?queuert=0.11"), "twin:").await;
    old.publish(Wake::Queue { queue: queue("old"), jobs: 1 });
    here.publish(Wake::Queue { queue: queue("new"), jobs: 1 });
    here.bus.flush().await;
    old.bus.flush().await;
    let mut forms = Vec::new();
    while forms.len() < 3 {
        forms.push(said().await);
    }
    assert_eq!(forms.iter().filter(|said| said.ends_with("old")).count(), 1, "{forms:?}");
    assert_eq!(there.polls.load(Ordering::SeqCst), 2, "the second form is not heard");
}

#[tokio::test]
async fn a_hint_has_a_ttl_from_its_first_moment_to_its_last_and_is_never_made_by_taking() {
    let url = shared_redis().url();
    let transport = RedisTransport::connect(options(&url, "ttl:")).await.unwrap();
    let mut direct = connection(&url).await;
    let hint: Hint = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
    let key = format!("ttl:hint:{hint}");
    assert!(!transport.take_hint(&hint).await);
    let exists: bool = redis::cmd("EXISTS").arg(&key).query_async(&mut direct).await.unwrap();
    assert!(!exists, "taking makes no hint");
    let _: () = redis::cmd("SET").arg(&key).arg(2).arg("EX").arg(60).query_async(&mut direct).await.unwrap();
    for taken in [true, true, false, false] {
        assert_eq!(transport.take_hint(&hint).await, taken);
        let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut direct).await.unwrap();
        assert!((1..=60).contains(&left), "{left} s are left");
    }
    let value: i64 = redis::cmd("GET").arg(&key).query_async(&mut direct).await.unwrap();
    assert_eq!(value, 0);
    // What another program's script has done to it is put right.
    let _: () = redis::cmd("SET").arg(&key).arg(0).query_async(&mut direct).await.unwrap();
    assert!(!transport.take_hint(&hint).await);
    let left: i64 = redis::cmd("TTL").arg(&key).query_async(&mut direct).await.unwrap();
    assert!((1..=60).contains(&left), "{left} s are left");
}

#[tokio::test]
async fn after_its_time_no_hint_is_left() {
    let url = shared_redis().url();
    let short = options(&url, "short:").hint_ttl(Duration::from_secs(1));
    let (process, mut direct) = (Process::with(short).await, connection(&url).await);
    for number in 0..100 {
        process.publish(Wake::Queue { queue: queue(&format!("q{number}")), jobs: 5 });
    }
    process.bus.flush().await;
    until("the end of all hints", || {
        let mut direct = direct.clone();
        async move {
            let keys: Vec<String> =
                redis::cmd("KEYS").arg("short:hint:*").query_async(&mut direct).await.unwrap();
            for key in &keys {
                let left: i64 = redis::cmd("PTTL").arg(key).query_async(&mut direct).await.unwrap();
                assert_ne!(left, -1, "{key} stays for ever");
            }
            keys.is_empty().then_some(())
        }
    })
    .await;
    let _: () = redis::cmd("PING").query_async(&mut direct).await.unwrap();
}

#[tokio::test]
async fn what_says_nothing_is_ignored_and_counted() {
    let url = shared_redis().url();
    let (mut process, mut direct) = (Process::start(&url, "noise:").await, connection(&url).await);
    let _events = process.listen().await;
    process.claim("mail", &mut direct, "noise:sched").await;
    let long = "x".repeat(10_000);
    let noise: [(&str, &[u8]); 6] = [
        ("sched", b""),
        ("sched", &[0xff, 0xfe]),
        ("sched", long.as_bytes()),
        ("chainc", b"two words"),
        ("owls", b""),
        ("wake", b"hello"),
    ];
    for (channel, message) in noise {
        let channel = format!("noise:{channel}");
        let _: i64 = redis::cmd("PUBLISH").arg(channel).arg(message).query_async(&mut direct).await.unwrap();
    }
    let _: i64 = redis::cmd("PUBLISH").arg("noise:sched").arg("mail").query_async(&mut direct).await.unwrap();
    process.polled(1).await;
    until("the count", || async { (process.transport.ignored() == 6).then_some(()) }).await;
    let findings = process.transport.checkup().await;
    assert!(findings.iter().any(|finding| finding.message.starts_with("6 messages")), "{findings:?}");
}

#[tokio::test]
async fn a_process_subscribes_once_per_channel_and_only_while_somebody_listens() {
    let url = shared_redis().url();
    let (mut process, mut direct) = (Process::start(&url, "once:").await, connection(&url).await);
    assert_eq!(subscribers(&mut direct, "once:sched").await, 0);
    process.claim("mail", &mut direct, "once:sched").await;
    (0..100).for_each(|_| process.spawn_claim("mail"));
    assert_eq!(subscribers(&mut direct, "once:sched").await, 1);
    assert_eq!(subscribers(&mut direct, "once:chainc").await, 0);
    let events = process.listen().await;
    assert_eq!(subscribers(&mut direct, "once:chainc").await, 1);
    drop((process.tasks, events));
    until("the end of the subscription", || {
        let mut direct = direct.clone();
        async move { (subscribers(&mut direct, "once:sched").await == 0).then_some(()) }
    })
    .await;
}

#[tokio::test]
async fn a_process_unsubscribes_when_nobody_listens_and_subscribes_again() {
    let url = shared_redis().url();
    let (process, mut direct) = (Process::start(&url, "idle:").await, connection(&url).await);
    let events = process.listen().await;
    assert_eq!(subscribers(&mut direct, "idle:wake").await, 1);
    drop(events);
    until("the end of the subscription", || {
        let mut direct = direct.clone();
        async move { (subscribers(&mut direct, "idle:wake").await == 0).then_some(()) }
    })
    .await;
    let _again = process.listen().await;
    assert_eq!(subscribers(&mut direct, "idle:wake").await, 1);
}

async fn goes_on_after(url: &str, restart: impl FnOnce()) {
    let (here, there) = (Process::start(url, "gap:").await, Process::start(url, "gap:").await);
    let mut events = there.listen().await;
    restart();
    // What is told while the server is away costs nothing and fails nobody.
    for _ in 0..10_000 {
        here.publish(Wake::Finished(JobId::generate()));
    }
    assert_eq!(next(&mut events).await, Wake::Everything);
    let mut repeat = tokio::time::interval(Duration::from_millis(100));
    let heard = async { while !matches!(next(&mut events).await, Wake::Cancel(_)) {} };
    let tell = async {
        loop {
            repeat.tick().await;
            here.publish(Wake::Cancel(JobId::generate()));
        }
    };
    tokio::select! {
        () = heard => {}
        () = tell => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_gap_everybody_looks_and_wake_ups_go_on() {
    let server = Redis::start().unwrap();
    goes_on_after(&server.url(), || server.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_restart_of_a_cluster_wake_ups_go_on() {
    let cluster = RedisCluster::start().unwrap();
    let restart = || {
        cluster.nodes().iter().for_each(|node| node.restart().unwrap());
        cluster.wait_until_ok().unwrap();
    };
    goes_on_after(&cluster.url(), restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_keeps_nobody_from_beginning() {
    let server = Redis::start().unwrap();
    server.kill().unwrap();
    let process = Process::start(&server.url(), "away:").await;
    let mut events = process.bus.subscribe();
    process.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
    assert!(matches!(next(&mut events).await, Wake::Queue { .. }), "its own");
    process.bus.flush().await;
    assert!(events.next().now_or_never().is_none());
    let findings = process.transport.checkup().await;
    assert_eq!(findings[0].severity, Severity::Warning, "{findings:?}");
    server.restart().unwrap();
    assert_eq!(next(&mut events).await, Wake::Everything);
    assert_eq!(process.transport.checkup().await[0].severity, Severity::Good);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_us_is_told_at_once() {
    let server = Redis::start().unwrap();
    // From now on it cannot be asked whether it is up.
    server.command(&["CONFIG", "SET", "requirepass", "secret"]).unwrap();
    let wrong = server.url().replace("redis://", "redis://:hunter2@");
    let refused = RedisTransport::connect(options(&wrong, "refused:")).await.unwrap_err();
    assert!(matches!(refused, tidemill_core::Error::Denied(_)), "{refused:?}");
    assert!(!refused.full_message().contains("hunter2"));
}
