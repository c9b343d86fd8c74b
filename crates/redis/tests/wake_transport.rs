//! Wake-ups through a real server, and through a Cluster: what travels, what a hint is, and what is left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use redis::aio::MultiplexedConnection;
use tidemill_core::store::Severity;
use tidemill_core::wake::Wake;
use tidemill_core::wake::{ForeignJobs, Hint, Message, MessageStream, Subject, Transport};
use tidemill_core::{JobId, Namespace, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisTransport};
use tidemill_testkit::conformance::until;
use tidemill_testkit::servers::{Redis, RedisCluster, shared_cluster, shared_redis};

const PATIENCE: Duration = Duration::from_secs(30);

fn queue(name: &str) -> Queue {
    Queue::at_least_once(QueueName::new(name).unwrap())
}

fn options(url: &str, namespace: &str) -> RedisOptions {
    RedisOptions::parse(url).unwrap().namespace(Namespace::new(namespace).unwrap())
}

async fn transport(url: &str, namespace: &str) -> RedisTransport {
    RedisTransport::connect(options(url, namespace)).await.unwrap()
}

async fn connection(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn next(messages: &mut MessageStream) -> Message {
    tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap()
}

/// Listens, and waits until the process is subscribed to every channel of the topic.
async fn listen(transport: &RedisTransport, topic: Subject) -> MessageStream {
    let channels = if topic == Subject::Work { 2 } else { 3 };
    listen_to_new(transport, topic, channels).await
}

/// Each channel that nobody here has listened to before says that there was a gap.
async fn listen_to_new(transport: &RedisTransport, topic: Subject, channels: usize) -> MessageStream {
    let mut messages = transport.subscribe(topic);
    for _ in 0..channels {
        assert_eq!(next(&mut messages).await, Wake::Everything.into());
    }
    messages
}

async fn subscribers(connection: &mut MultiplexedConnection, channel: &str) -> i64 {
    let counts: (String, i64) =
        redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query_async(connection).await.unwrap();
    counts.1
}

async fn what_one_tells_the_other_hears(url: &str, namespace: &str) {
    let (here, there) = (transport(url, namespace).await, transport(url, namespace).await);
    let mut news = listen(&there, Subject::Events).await;
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
        assert_eq!(next(&mut news).await, wake.into());
    }
    let mut work = listen_to_new(&there, Subject::Work, 1).await;
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 2 });
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
    let Message::ForeignJobs(ForeignJobs { type_name, hint: Some(hint) }) = next(&mut work).await else {
        panic!("jobs are announced with a hint")
    };
    assert_eq!(type_name, "mail");
    // Both were told within a millisecond, or else there are two hints.
    let mut shares = 0;
    while there.take_hint(&hint).await {
        shares += 1;
    }
    if shares < 3 {
        let Message::ForeignJobs(ForeignJobs { hint: Some(hint), .. }) = next(&mut work).await else {
            panic!()
        };
        while there.take_hint(&hint).await {
            shares += 1;
        }
    }
    assert_eq!(shares, 3);
    assert_eq!(there.ignored(), 0);
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
    let (here, there) = (transport(&url, "own:").await, transport(&url, "own:").await);
    let (mut own, mut others) = (listen(&here, Subject::Work).await, listen(&there, Subject::Work).await);
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
    assert!(matches!(next(&mut others).await, Message::ForeignJobs(_)));
    there.publish(Wake::Queue { queue: queue("other"), jobs: 1 });
    // The first thing it hears is the other's.
    assert!(
        matches!(next(&mut own).await, Message::ForeignJobs(ForeignJobs { type_name, .. }) if type_name == "other")
    );
}

#[tokio::test]
async fn an_announcement_in_two_forms_is_heard_once_and_a_foreign_one_beside_it_as_well() {
    let url = shared_redis().url();
    let (here, there, mut direct) =
        (transport(&url, "twin:").await, transport(&url, "twin:").await, connection(&url).await);
    let mut work = listen(&there, Subject::Work).await;
    let mut raw = redis::Client::open(url.as_str()).unwrap().get_async_pubsub().await.unwrap();
    raw.subscribe("twin:sched").await.unwrap();
    here.publish(Wake::Queue { queue: queue("mail"), jobs: 3 });
    here.flush().await;
    let mut messages = raw.on_message();
    let mut said = async || messages.next().await.unwrap().get_payload::<String>().unwrap();
    assert!(said().await.ends_with(":mail"));
    assert_eq!(said().await, "mail");
    let _: i64 = redis::cmd("PUBLISH").arg("twin:sched").arg("mail").query_async(&mut direct).await.unwrap();
    let heard = [next(&mut work).await, next(&mut work).await].map(|message| match message {
        Message::ForeignJobs(ForeignJobs { hint, .. }) => hint.is_some(),
        other => panic!("{other:?}"),
    });
    assert_eq!(heard, [true, false]);
    let counted: i64 = redis::cmd("GET").arg("twin:hint:mail").query_async(&mut direct).await.unwrap();
    assert_eq!(counted, 3);
    // One form alone, if the URL says so.
    let old = transport(&format!("{url}?queuert=0.11"), "twin:").await;
    old.publish(Wake::Queue { queue: queue("old"), jobs: 1 });
    here.publish(Wake::Queue { queue: queue("new"), jobs: 1 });
    here.flush().await;
    old.flush().await;
    let mut forms = Vec::new();
    while forms.len() < 4 {
        forms.push(said().await);
    }
    assert_eq!(forms.iter().filter(|said| said.ends_with("old")).count(), 1, "{forms:?}");
}

#[tokio::test]
async fn a_hint_has_a_ttl_from_its_first_moment_to_its_last_and_is_never_made_by_taking() {
    let url = shared_redis().url();
    let (transport, mut direct) = (transport(&url, "ttl:").await, connection(&url).await);
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
    let (transport, mut direct) = (RedisTransport::connect(short).await.unwrap(), connection(&url).await);
    for number in 0..100 {
        transport.publish(Wake::Queue { queue: queue(&format!("q{number}")), jobs: 5 });
    }
    transport.flush().await;
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
    let (transport, mut direct) = (transport(&url, "noise:").await, connection(&url).await);
    let mut work = listen(&transport, Subject::Work).await;
    let _news = listen_to_new(&transport, Subject::Events, 2).await;
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
    let plain = ForeignJobs { type_name: "mail".into(), hint: None };
    assert_eq!(next(&mut work).await, Message::ForeignJobs(plain));
    until("the count", || async { (transport.ignored() == 6).then_some(()) }).await;
    let findings = transport.checkup().await;
    assert!(findings.iter().any(|finding| finding.message.starts_with("6 messages")), "{findings:?}");
}

#[tokio::test]
async fn a_process_subscribes_once_per_channel_and_only_while_somebody_listens() {
    let url = shared_redis().url();
    let (transport, mut direct) = (transport(&url, "once:").await, connection(&url).await);
    assert_eq!(subscribers(&mut direct, "once:sched").await, 0);
    let first = listen(&transport, Subject::Work).await;
    let more: Vec<_> = (0..100).map(|_| transport.subscribe(Subject::Work)).collect();
    assert_eq!(subscribers(&mut direct, "once:sched").await, 1);
    assert_eq!(subscribers(&mut direct, "once:chainc").await, 0);
    drop((first, more));
    until("the end of the subscription", || {
        let mut direct = direct.clone();
        async move { (subscribers(&mut direct, "once:sched").await == 0).then_some(()) }
    })
    .await;
    let _again = listen(&transport, Subject::Work).await;
}

async fn goes_on_after(url: &str, restart: impl FnOnce()) {
    let (here, there) = (transport(url, "gap:").await, transport(url, "gap:").await);
    let mut work = listen(&there, Subject::Work).await;
    restart();
    // What is told while the server is away costs nothing and fails nobody.
    for _ in 0..10_000 {
        here.publish(Wake::Finished(JobId::generate()));
    }
    assert_eq!(next(&mut work).await, Wake::Everything.into());
    let mut repeat = tokio::time::interval(Duration::from_millis(100));
    let heard = async { while !matches!(next(&mut work).await, Message::ForeignJobs(_)) {} };
    let tell = async {
        loop {
            repeat.tick().await;
            here.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
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
    let transport = transport(&server.url(), "away:").await;
    let mut work = transport.subscribe(Subject::Work);
    transport.publish(Wake::Queue { queue: queue("mail"), jobs: 1 });
    transport.flush().await;
    assert!(work.next().now_or_never().is_none());
    let findings = transport.checkup().await;
    assert_eq!(findings[0].severity, Severity::Warning, "{findings:?}");
    server.restart().unwrap();
    assert_eq!(next(&mut work).await, Wake::Everything.into());
    assert_eq!(transport.checkup().await[0].severity, Severity::Good);
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
