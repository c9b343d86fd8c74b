//! Steps of the clock of the database's host.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::job::JobState;
use tidemill_core::store::{ClockStep, Due, NewJob};
use tidemill_core::{Queue, QueueName, Store};
use tidemill_testkit::conformance::QueueHarness;
use tidemill_testkit::conformance::harness::job;
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query};

const HOUR: Duration = Duration::from_secs(3_600);

/// Changes the tables as if the clock had been an hour ahead until now.
const AN_HOUR_AHEAD: &str = "UPDATE tidemill.ready SET due = due + 3600000;
    UPDATE tidemill.jobs SET due = due + 3600000; UPDATE tidemill.leases SET until = until + 3600000";

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_hides_nothing_that_was_ready() {
    let url = shared_postgres().database().unwrap();
    let store: Arc<dyn Store> = Arc::new(connect(&url).await);
    let lease = Duration::from_secs(1);
    let scene =
        QueueHarness::new(store, Queue::at_least_once(QueueName::new("mail").unwrap())).with_lease(lease);
    scene.enqueue_many(3).await;
    let later = scene.enqueue(NewJob { due: Due::In(HOUR), ..job() }).await;
    scene.claim(1).await;
    query(&url, AN_HOUR_AHEAD).await;
    scene.claim_nothing().await;
    let from = scene.store.clock().now().after(HOUR);
    scene.store.adjust_for_clock_step(ClockStep { from, lease_limit: lease }).await.unwrap();
    assert_eq!(scene.state(&later).await, Some(JobState::Scheduled));
    assert_eq!(scene.clone().with_lease(HOUR).claim(2).await.len(), 2);
    // The existing lease ends within the limit.
    scene.expire_and_rescue(1).await;
    scene.store.adjust_for_clock_step(ClockStep { from, lease_limit: lease }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_that_eight_workers_notice_ends_no_lease_early() {
    let url = shared_postgres().database().unwrap();
    let store: Arc<dyn Store> = Arc::new(connect(&url).await);
    let scene =
        QueueHarness::new(store, Queue::at_least_once(QueueName::new("mail").unwrap())).with_lease(HOUR);
    scene.enqueue_many(1).await;
    scene.claim(1).await;
    for _ in 0..8 {
        let from = scene.store.clock().now().after(HOUR / 8);
        scene.store.adjust_for_clock_step(ClockStep { from, lease_limit: HOUR }).await.unwrap();
    }
    let left = "SELECT (until - tidemill.now_ms())::text FROM tidemill.leases";
    let left: i64 = query(&url, left).await[0][0].parse().unwrap();
    assert!(left > 3_600_000 / 2, "{left} ms are left of a lease of an hour");
}
