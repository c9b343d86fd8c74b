//! The master dies or freezes while workers run, and three Sentinels replace it.

use std::sync::Arc;
use std::time::Duration;

use tidemill_testkit::servers::{Redis, RedisSentinel};

use crate::work::{Background, FOR_EVER, enqueue};

/// Waits until a process subscribes to wake-ups on a server.
async fn is_listened_to(redis: &Redis) {
    let count = "return redis.call('PUBSUB', 'NUMSUB', 'tidemill:wake')[2]";
    let listeners = async {
        while redis.command(&["EVAL", count, "0"]).unwrap() == "0" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(FOR_EVER, listeners).await.unwrap();
}

async fn fail_over(sentinel: &Arc<RedisSentinel>) {
    let sentinel = sentinel.clone();
    tokio::task::spawn_blocking(move || sentinel.wait_for_failover().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_dies_and_no_job_is_lost_that_a_replica_had() {
    let sentinel = Arc::new(RedisSentinel::start().unwrap());
    let client = tidemill::connect(&sentinel.url()).await.unwrap();
    let replicated = tidemill::connect(&format!("{}?replicas=1", sentinel.url())).await.unwrap();
    let mut worker = Background::start(&client);
    for step in 0..40 {
        enqueue(&replicated, step).await;
    }
    sentinel.servers()[0].kill().unwrap();
    // Two of three Sentinels are a quorum.
    sentinel.kill_sentinel(0).unwrap();
    for step in 40..60 {
        enqueue(&client, step).await;
    }
    worker.begins(0..60).await;
    is_listened_to(&sentinel.servers()[1]).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_freezes_is_left_for_the_new_one() {
    let sentinel = Arc::new(RedisSentinel::start().unwrap());
    let client = tidemill::connect(&sentinel.url()).await.unwrap();
    let mut worker = Background::start(&client);
    enqueue(&client, 0).await;
    worker.begins(0..1).await;
    // The worker is idle: its reads, its subscription and the shared connection all use the old
    // master.
    is_listened_to(&sentinel.servers()[0]).await;
    sentinel.servers()[0].pause().unwrap();
    fail_over(&sentinel).await;
    is_listened_to(&sentinel.servers()[1]).await;
    for step in 1..10 {
        enqueue(&client, step).await;
    }
    worker.begins(1..10).await;
    sentinel.servers()[0].resume().unwrap();
    for step in 10..20 {
        enqueue(&client, step).await;
    }
    worker.begins(10..20).await;
    worker.stop().await;
}
