//! The fleet over time, on a paused clock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::store::fleet::{AttachParams, Attached, Leased, ORDER_TIMEOUT};
use tidemill_sqlite::{PausedClock, SqliteOptions, SqliteStore};
use tidemill_testkit::conformance::harness::{FleetHarness, chromium};

const MINUTE: Duration = Duration::from_secs(60);

async fn yard() -> (FleetHarness, PausedClock) {
    let clock = PausedClock::new(Timestamp(1_700_000_000_000));
    let options = SqliteOptions { clock: Some(Arc::new(clock.clone())), ..SqliteOptions::memory() };
    let store = SqliteStore::open(options).await.unwrap();
    (FleetHarness::new(Arc::new(store)).with_lease(MINUTE), clock)
}

async fn is_full(yard: &FleetHarness) -> bool {
    matches!(yard.lease(&yard.lease_params()).await, Leased::Refused { .. })
}

#[tokio::test]
async fn a_member_that_was_found_full_has_a_place_as_soon_as_a_session_is_over() {
    let (yard, clock) = yard().await;
    let mut member = chromium("a", 1, 0);
    member.beat_timeout = ORDER_TIMEOUT * 100;
    let a = yard.join_entry(&member).await;
    let (session, _) = yard.open().await;
    assert!(is_full(&yard).await);
    // Its holder shortens the session after the worker was marked as full.
    let short = AttachParams { ttl: MINUTE / 6, ..yard.attach_params(&session, &a) };
    assert_eq!(yard.attach(&short).await, Attached::Held);
    assert!(is_full(&yard).await);
    clock.advance(MINUTE / 6);
    let (session, _) = yard.open().await;
    assert!(is_full(&yard).await);
    yard.release(&session).await;
    yard.open().await;
    assert!(is_full(&yard).await);
    member.capacity.concurrent = 2;
    yard.beat(&member).await;
    yard.open().await;
}

#[tokio::test]
async fn an_order_that_is_not_obeyed_lapses() {
    let (yard, clock) = yard().await;
    let mut member = chromium("a", 1, 0);
    member.beat_timeout = ORDER_TIMEOUT * 100;
    let a = yard.join_entry(&member).await;
    assert!(yard.fleet().drain(&a).await.unwrap());
    clock.advance(ORDER_TIMEOUT - Duration::from_millis(1));
    assert!(is_full(&yard).await && yard.beat(&member).await.drain);
    clock.advance(Duration::from_millis(1));
    assert!(!yard.beat(&member).await.drain);
    yard.open().await;
}

#[tokio::test]
async fn a_session_outlives_its_holder_for_its_lease_and_not_longer() {
    let (yard, clock) = yard().await;
    let a = yard.join("a", 1, 0).await;
    let (session, grant) = yard.open().await;
    assert_eq!(grant.until, yard.store.clock().now().after(MINUTE));
    yard.attach(&yard.attach_params(&session, &a)).await;
    clock.advance(MINUTE - Duration::from_millis(1));
    assert_eq!(yard.counts(&a).await, (1, 1));
    clock.advance(Duration::from_millis(1));
    assert_eq!(yard.counts(&a).await, (0, 1));
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none(), "though nobody has reaped it");
}
