//! Answers that are lost between Redis and its clients, and replicas that are missing.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidemill_core::store::{EnqueueParams, Inspect, Jobs, NewJob, Queues};
use tidemill_core::{Client, Error, Guarantee, Job, JobId, Queue, QueueName};
use tidemill_redis::{RedisOptions, RedisStore};
use tidemill_testkit::conformance::harness::JobSpec;
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::lost_answers::{no_job_is_accepted_twice, one_enqueue_stays_one_job};
use tidemill_testkit::servers::{Redis, RedisCluster, RedisOptions as ServerOptions};

#[derive(serde::Serialize, serde::Deserialize)]
struct Plain;

impl Job for Plain {
    const KIND: &'static str = "plain";
    type Output = ();
}

async fn connect(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(RedisOptions::parse(url).unwrap()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_enqueue_stays_one_job_when_its_answer_is_lost() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let through = connect(&proxy.url(&redis.url())).await;
    one_enqueue_stays_one_job(through, &proxy, connect(&redis.url()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_accepted_twice_while_clients_are_killed() {
    let redis = Redis::start().unwrap();
    let (through, beside) = (connect(&redis.url()).await, connect(&redis.url()).await);
    let kill = async || drop(redis.command(&["CLIENT", "KILL", "TYPE", "normal"]));
    let acknowledged = no_job_is_accepted_twice(through, beside, Duration::from_secs(6), kill).await;
    assert!(acknowledged > 100, "{acknowledged} enqueues were acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_cost_as_many_keys_as_there_were_calls_at_once() {
    let redis = Redis::start().unwrap();
    let client = Client::new(connect(&redis.url()).await);
    for number in 0..200 {
        client.job(Plain).enqueue().await.unwrap();
        client.job(Plain).id(&format!("j{number}")).enqueue().await.unwrap();
        client.jobs([Plain, Plain]).enqueue().await.unwrap();
    }
    let script = "return #redis.call('KEYS', '*receipt:*')";
    assert_eq!(redis.command(&["EVAL", script, "0"]).unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn untracked_jobs_are_added_once_if_the_first_request_arrives_after_its_repeat() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let beside = connect(&redis.url()).await;
    let queues: Vec<Queue> = (0..8)
        .map(|number| Queue {
            name: QueueName::new(&format!("q{number}")).unwrap(),
            guarantee: if number % 2 == 0 { Guarantee::AtLeastOnce } else { Guarantee::AtMostOnce },
        })
        .collect();
    let url = proxy.url(&redis.url());
    let stores = join_all(queues.iter().map(|_| connect(&url))).await;
    proxy.black_hole();
    let calls = queues.iter().zip(&stores).map(async |(queue, store)| {
        let jobs: Vec<NewJob> = (0..3).map(|_| JobSpec::default().untracked()).collect();
        store.enqueue(EnqueueParams { queue, jobs: &jobs }).await
    });
    let resume = async {
        // The clients give the first requests up and repeat them over other connections.
        tokio::time::sleep(Duration::from_secs(9)).await;
        proxy.resume().await.unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(calls), resume);
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    // Whatever is still on its way arrives.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let infos = beside.list_queues().await.unwrap();
    let ready: Vec<u64> = infos.iter().map(|info| info.ready).collect();
    assert_eq!(ready, [3; 8], "{infos:?}");
}

/// Every way in which a missing replica was paid for by all: a queue of WAITs on one connection, and repeats.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_replica_multiplies_nothing_and_holds_up_nobody_else() {
    let redis = Redis::start().unwrap();
    let store = connect(&format!("{}?replicas=1", redis.url())).await;
    let client = Client::new(store.clone());
    let began = Instant::now();
    let calls = (0..20).map(|number| {
        let job = client.job(Plain);
        if number % 2 == 0 { job.id(&format!("j{number}")).enqueue() } else { job.enqueue() }
    });
    let (answers, looked) = tokio::join!(join_all(calls), async {
        while store.get_job(&JobId::new("j0").unwrap()).await.unwrap().is_none() {}
        began.elapsed()
    });
    let took = began.elapsed();
    for answer in answers {
        let Err(Error::Unconfirmed(message)) = answer else { panic!("{answer:?}") };
        let made = message.contains("was made, but 0 of 1 replicas confirmed it within 2s");
        assert!(made && message.starts_with("job "), "{message}");
    }
    assert!(looked < took, "a look took {looked:?}, as long as the enqueues ({took:?})");
    assert!(took < Duration::from_secs(15), "20 callers took {took:?}");
    assert_eq!(redis.command(&["XLEN", "tidemill:stream:default"]).unwrap(), "20");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_confirms_what_was_written_and_not_less() {
    let redis = Redis::start().unwrap();
    let replica = Redis::with(ServerOptions {
        args: vec!["--replicaof".into(), "127.0.0.1".into(), redis.port().to_string()],
        ..ServerOptions::default()
    });
    let replica = replica.unwrap();
    let store = connect(&format!("{}?replicas=1", redis.url())).await;
    let client = Client::new(store);
    let enqueue = |number: usize| {
        let job = client.job(Plain);
        if number.is_multiple_of(2) { job.id(&format!("j{number}")).enqueue() } else { job.enqueue() }
    };
    // The replica is on its way.
    while enqueue(1).await.is_err() {}
    for number in 2..6 {
        enqueue(number).await.unwrap();
    }
    replica.pause().unwrap();
    // WAIT on a connection that has written nothing would count the replica, which is still connected.
    for number in 6..8 {
        let answer = enqueue(number).await;
        assert!(matches!(answer, Err(Error::Unconfirmed(_))), "{answer:?}");
    }
    replica.resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_not_denied_because_its_repeat_was() {
    let redis = Redis::start().unwrap();
    redis.command(&["ACL", "SETUSER", "ux", "on", ">pw", "~*", "&*", "+@all"]).unwrap();
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let url = proxy.url(&redis.url()).replace("redis://", "redis://ux:pw@");
    let client = Client::new(connect(&url).await);
    client.job(Plain).enqueue().await.unwrap();
    // The connections that there are stay; nobody can open another.
    redis.command(&["ACL", "SETUSER", "ux", "off"]).unwrap();
    proxy.drop_answer_to("plain");
    let answer = client.job(Plain).enqueue().await;
    assert_eq!(redis.command(&["XLEN", "tidemill:stream:default"]).unwrap(), "2");
    let Err(error @ Error::Unanswered { .. }) = &answer else { panic!("{answer:?}") };
    assert!(error.full_message().contains("access denied"), "{}", error.full_message());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_of_a_cluster_does_not_hide_what_the_others_have_made() {
    let cluster = RedisCluster::start().unwrap();
    let mut partly = 0;
    for node in cluster.nodes() {
        let client = Client::new(connect(&cluster.url()).await);
        let before = ready(&client).await;
        node.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let answer = client.jobs((0..150).map(|_| Plain)).enqueue().await;
        node.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        let (made, error) = (ready(&client).await - before, answer.unwrap_err());
        assert!(error.created.len() as u64 <= made, "{error}: {made} are there");
        assert!((error.created.len() + error.unknown.len()) as u64 >= made, "{error}: {made} are there");
        partly += usize::from(made > 0);
    }
    assert!(partly > 0, "no node was asked after another");
}

async fn ready(client: &Client) -> u64 {
    client.store().list_queues().await.unwrap().iter().map(|info| info.ready).sum()
}
