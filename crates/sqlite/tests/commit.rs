//! Group commit: callers share a transaction, and a failing one does not fail the others.

mod database_dir;

use std::time::Duration;

use database_dir::{DatabaseDir, scene};
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{EnqueueParams, Jobs, NewJob, SettleParams, Verdict};
use tidemill_core::{Error, Store};
use tidemill_testkit::conformance::harness::{JobSpec, done, job};
use tidemill_testkit::conformance::until;

/// A job that needs more pages than a full file has left.
fn big() -> NewJob {
    JobSpec { payload: format!("{:?}", "x".repeat(500_000)), ..JobSpec::default() }.job()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_harms_none_that_shared_its_transaction() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue_many(40).await;
    let running = scene.claim(20).await;
    store.set_pragma("max_page_count = 60").await.unwrap();
    let before = store.commands();
    // While another connection has the lock, requests queue up, and then share few transactions.
    let lock = dir.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let too_much = tokio::spawn({
        let (store, queue) = (store.clone(), scene.queue.clone());
        async move { store.enqueue(EnqueueParams { queue: &queue, jobs: &[big()] }).await }
    });
    let endings: Vec<_> = running
        .into_iter()
        .map(|claimed| {
            let store = store.clone();
            let change = Change::Finish(None);
            let one = [Settlement { lease: claimed.lease, change }];
            tokio::spawn(async move { store.settle(SettleParams::current(&one)).await })
        })
        .collect();
    until("all to be sent", || async { (store.commands() == before + 21).then_some(()) }).await;
    lock.execute_batch("COMMIT").unwrap();
    for ending in endings {
        assert_eq!(ending.await.unwrap().unwrap(), [Verdict::Accepted]);
    }
    let refused = too_much.await.unwrap();
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    scene.assert_counts([20, 0, 0, 0]).await;
}

#[tokio::test]
async fn at_a_full_disk_nothing_is_written_half_and_jobs_can_still_settle() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue_many(10).await;
    let running = scene.claim(5).await;
    store.set_pragma("max_page_count = 40").await.unwrap();
    let refused = store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &[job(), big()] }).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    scene.assert_counts([5, 0, 5, 0]).await;
    for claimed in &running {
        scene.settle(claimed, done()).await;
    }
    scene.assert_counts([5, 0, 0, 0]).await;
    store.set_pragma("max_page_count = 100000").await.unwrap();
    scene.enqueue(big()).await;
}

#[tokio::test]
async fn a_read_only_store_says_so_and_can_be_read() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue_many(3).await;
    store.set_pragma("query_only = on").await.unwrap();
    let refused = store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &[job()] }).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    scene.assert_counts([3, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_caller_that_stops_waiting_stops_nothing() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    let lock = dir.raw();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let jobs = [job()];
    let enqueue = store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &jobs });
    assert!(tokio::time::timeout(Duration::from_millis(10), enqueue).await.is_err());
    lock.execute_batch("COMMIT").unwrap();
    scene.claim(1).await;
}

#[tokio::test]
async fn without_room_for_its_reserve_the_store_only_lets_jobs_go() {
    let dir = DatabaseDir::new();
    let store = dir.open().await;
    let scene = scene(&store);
    scene.enqueue_many(10).await;
    let reserve = dir.path().with_extension("db-reserve");
    std::fs::remove_file(&reserve).unwrap();
    // A directory instead of the reserve file has the effect of a full disk.
    std::fs::create_dir(&reserve).unwrap();
    let refused = store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &[job()] }).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    for claimed in &scene.claim(10).await {
        scene.settle(claimed, done()).await;
    }
    scene.assert_counts([0; 4]).await;
    std::fs::remove_dir(&reserve).unwrap();
    until("room", || async {
        store.enqueue(EnqueueParams { queue: &scene.queue, jobs: &[job()] }).await.ok()
    })
    .await;
}
