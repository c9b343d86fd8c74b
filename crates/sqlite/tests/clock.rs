//! A store on a paused clock: nothing happens before its time, everything at it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod database_dir;

use std::sync::Arc;
use std::time::Duration;

use database_dir::scene;
use tidemill_core::job::JobState;
use tidemill_core::lease::MAX_HEARTBEAT;
use tidemill_core::settle::expired::{RescueReport, Rescuer};
use tidemill_core::store::{Due, Extended, NewJob, Queues};
use tidemill_core::wake::Wake;
use tidemill_core::{Store, Timestamp};
use tidemill_sqlite::{PausedClock, SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::LONG;
use tidemill_testkit::conformance::harness::job;

const HOUR: Duration = Duration::from_secs(3600);

async fn stopped() -> (SqliteStore, PausedClock) {
    let clock = PausedClock::new(Timestamp(1_735_689_600_000));
    let store = SqliteStore::open(SqliteOptions::memory().clock(Arc::new(clock.clone()))).await.unwrap();
    (store, clock)
}

#[tokio::test]
async fn a_delayed_job_waits_for_the_stores_clock() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    let id = scene.enqueue(NewJob { due: Due::In(HOUR), ..job() }).await;
    scene.claim_nothing().await;
    assert_eq!(scene.promote().await.next, Some(HOUR));
    clock.advance(HOUR - Duration::from_millis(1));
    scene.claim_nothing().await;
    assert_eq!(scene.state(&id).await, Some(JobState::Scheduled));
    clock.advance(Duration::from_millis(1));
    assert_eq!(scene.state(&id).await, Some(JobState::Ready));
    scene.claim(1).await;
}

#[tokio::test]
async fn a_waiting_claim_is_given_the_job_when_the_clock_reaches_it() {
    let (store, clock) = stopped().await;
    let waiting = scene(&store);
    let claim = tokio::spawn(async move { waiting.claim_with(1, 1, 2 * HOUR).await });
    scene(&store).enqueue(NewJob { due: Due::In(HOUR), ..job() }).await;
    clock.advance(HOUR);
    assert_eq!(claim.await.unwrap().len(), 1);
}

#[tokio::test]
async fn waiting_ends_when_the_clock_says_so() {
    let (store, clock) = stopped().await;
    let waiting = scene(&store);
    let mut wakes = store.subscribe();
    let claim = tokio::spawn(async move { waiting.claim_with(1, 1, HOUR).await });
    // The claim's first attempt is over when a later call has returned.
    store.pause(&scene(&store).queue).await.unwrap();
    let wake = futures_util::StreamExt::next(&mut wakes).await;
    assert_eq!(wake, Some(Wake::all_waiters(scene(&store).queue)));
    while !claim.is_finished() {
        clock.advance(HOUR);
        tokio::task::yield_now().await;
    }
    assert!(claim.await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lease_runs_out_by_the_stores_clock() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    scene.enqueue_many(1).await;
    scene.claim(1).await;
    clock.advance(LONG - Duration::from_millis(1));
    assert_eq!(scene.rescue().await, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(scene.rescue().await, 1);
    scene.claim(1).await;
}

/// A rescuer that has observed the clock for a while.
async fn rescuer(store: &SqliteStore, clock: &PausedClock) -> Rescuer {
    let mut rescuer = Rescuer::new(Vec::new(), LONG);
    for _ in 0..3 {
        assert_eq!(rescuer.rescue_all(store).await.unwrap(), RescueReport::default());
        clock.advance(MAX_HEARTBEAT);
    }
    rescuer
}

#[tokio::test]
async fn a_clock_that_is_set_forward_robs_no_live_worker() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    let mut rescuer = rescuer(&store, &clock).await;
    scene.enqueue_many(2).await;
    let claimed = scene.claim(2).await;
    rescuer.rescue_all(&store).await.unwrap();
    clock.step(3_600_000);
    assert_eq!(scene.all_expired(10).await.len(), 2);
    assert_eq!(rescuer.rescue_all(&store).await.unwrap().rescued, 0);
    // One of the two workers is alive: it extends its lease with its next heartbeat.
    clock.advance(MAX_HEARTBEAT);
    assert_eq!(scene.extend(&[claimed[0].lease.clone()]).await, [Extended::Yes]);
    assert_eq!(rescuer.rescue_all(&store).await.unwrap().rescued, 0);
    clock.advance(MAX_HEARTBEAT);
    assert_eq!(rescuer.rescue_all(&store).await.unwrap().rescued, 1);
    assert_eq!(scene.state(&claimed[0].lease.job).await, Some(JobState::Running));
    assert_eq!(scene.state(&claimed[1].lease.job).await, Some(JobState::Ready));
}

#[tokio::test]
async fn a_lease_that_runs_out_on_a_steady_clock_is_rescued_by_the_next_look() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    let mut rescuer = rescuer(&store, &clock).await;
    scene.enqueue_many(1).await;
    scene.claim(1).await;
    rescuer.rescue_all(&store).await.unwrap();
    clock.advance(LONG);
    assert_eq!(rescuer.rescue_all(&store).await.unwrap().rescued, 1);
}

#[tokio::test]
async fn a_clock_that_is_set_back_hides_nothing_that_was_ready() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    let mut rescuer = rescuer(&store, &clock).await;
    scene.enqueue_many(3).await;
    let later = scene.enqueue(NewJob { due: Due::In(HOUR), ..job() }).await;
    scene.claim(1).await;
    rescuer.rescue_all(&store).await.unwrap();
    clock.step(-3_600_000);
    scene.claim_nothing().await;
    assert!(rescuer.rescue_all(&store).await.unwrap().clock_set_back_from.is_some());
    assert_eq!(scene.claim(2).await.len(), 2);
    assert_eq!(scene.state(&later).await, Some(JobState::Scheduled));
    // The existing lease ends as if the clock had not been set.
    clock.advance(LONG);
    assert!(rescuer.rescue_all(&store).await.unwrap().rescued >= 1);
}

#[tokio::test]
async fn a_clock_that_is_set_back_robs_no_live_worker_however_many_notice() {
    let (store, clock) = stopped().await;
    let scene = scene(&store);
    let mut rescuers = Vec::new();
    for _ in 0..8 {
        rescuers.push(rescuer(&store, &clock).await);
    }
    scene.enqueue_many(2).await;
    let claimed = scene.claim(2).await;
    for rescuer in &mut rescuers {
        rescuer.rescue_all(&store).await.unwrap();
    }
    clock.step(-29_000);
    // One of the two workers extends its lease before the step is detected.
    assert_eq!(scene.extend(&[claimed[0].lease.clone()]).await, [Extended::Yes]);
    for rescuer in &mut rescuers {
        assert!(rescuer.rescue_all(&store).await.unwrap().clock_set_back_from.is_some());
    }
    // No heartbeat is due before this.
    clock.advance(MAX_HEARTBEAT - Duration::from_millis(1));
    assert_eq!(rescuers[0].rescue_all(&store).await.unwrap().rescued, 0);
    clock.advance(LONG);
    assert_eq!(rescuers[0].rescue_all(&store).await.unwrap().rescued, 2);
}
