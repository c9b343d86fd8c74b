//! Sessions that wait for a browser are served in order.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::fleet::{LeaseParams, Leased, WaitParams, WaitingInfo, WorkerEntry, WorkerStatus};
use tidemill_core::wake::Wake;

use super::harness::{LONG, SHORT, FleetHarness, chromium, kind, offer, until};
use super::wake::WakeListeners;
use super::StoreUnderTest;

pub async fn whoever_waits_is_served_first_in_first_out_across_gateways(subject: StoreUnderTest) {
    let (here, there) = (subject.fleet_harness(), FleetHarness::new(subject.other_connection().await));
    here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    let (first, second, third) = (here.waiting_lease_params(), there.waiting_lease_params(), here.waiting_lease_params());
    assert_eq!(here.lease(&first).await, Leased::Waiting { ahead: 0, workers: 1 });
    assert_eq!(there.lease(&second).await, Leased::Waiting { ahead: 1, workers: 1 });
    assert_eq!(here.lease(&third).await, Leased::Waiting { ahead: 2, workers: 1 });
    assert_eq!(here.lease(&first).await, Leased::Waiting { ahead: 0, workers: 1 }, "asking again moves nobody");
    here.release(&session).await;
    assert!(matches!(there.lease(&second).await, Leased::Waiting { ahead: 1, .. }), "it is not its turn");
    here.lease_granted(&first).await;
    assert!(matches!(here.lease(&third).await, Leased::Waiting { ahead: 1, .. }));
    here.release(&first.session).await;
    there.lease_granted(&second).await;
    there.release(&second.session).await;
    here.lease_granted(&third).await;
}

pub async fn a_newcomer_does_not_pass_by_those_who_wait(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let waiting = harness.waiting_lease_params();
    harness.lease(&waiting).await;
    harness.release(&session).await;
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { waiting: 1, .. }));
    assert!(matches!(harness.lease(&harness.waiting_lease_params()).await, Leased::Waiting { ahead: 1, .. }));
    harness.lease_granted(&waiting).await;
}

pub async fn who_gives_back_a_member_that_did_not_answer_stands_behind_nobody(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    harness.join("dead", 1, 0).await;
    let mut unlucky = LeaseParams { wait: Some(WaitParams { max_waiting: 1, ttl: LONG }), ..harness.lease_params() };
    let dead = harness.lease_granted(&unlucky).await.worker;
    let other = harness.waiting_lease_params();
    assert!(matches!(harness.lease(&other).await, Leased::Waiting { ahead: 0, .. }));
    unlucky.rejected.push(dead);
    assert!(matches!(harness.lease(&unlucky).await, Leased::Waiting { ahead: 0, .. }), "also where the line is full");
    let later = LeaseParams { rejected: unlucky.rejected.clone(), ..other.clone() };
    assert!(matches!(harness.lease(&later).await, Leased::Waiting { ahead: 1, .. }));
    harness.join("alive", 1, 0).await;
    assert!(matches!(harness.lease(&later).await, Leased::Waiting { ahead: 1, .. }));
    harness.lease_granted(&unlucky).await;
}

pub async fn a_full_line_takes_nobody(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let short = || LeaseParams { wait: Some(WaitParams { max_waiting: 2, ttl: LONG }), ..harness.lease_params() };
    assert!(matches!(harness.lease(&short()).await, Leased::Waiting { ahead: 0, workers: 0 }));
    let second = short();
    assert!(matches!(harness.lease(&second).await, Leased::Waiting { ahead: 1, .. }));
    assert_eq!(harness.lease(&short()).await, Leased::Refused { waiting: 2, workers: 0 });
    assert!(matches!(harness.lease(&second).await, Leased::Waiting { .. }), "it has its place");
}

pub async fn a_member_of_one_session_counts_as_a_worker_until_it_leaves(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 1, 1);
    harness.join_entry(&member).await;
    let (session, _) = harness.open().await;
    harness.beat(&WorkerEntry { status: WorkerStatus::Draining, ..member.clone() }).await;
    let first = LeaseParams { wait: Some(WaitParams { max_waiting: 1, ttl: LONG }), ..harness.lease_params() };
    assert_eq!(harness.lease(&first).await, Leased::Waiting { ahead: 0, workers: 1 });
    let second = LeaseParams { wait: first.wait, ..harness.lease_params() };
    assert_eq!(harness.lease(&second).await, Leased::Refused { waiting: 1, workers: 1 });
    assert!(harness.release(&session).await);
    assert_eq!(harness.lease(&first).await, Leased::Waiting { ahead: 0, workers: 1 }, "it is being replaced");
    harness.fleet().part(&[member.id]).await.unwrap();
    assert_eq!(harness.lease(&first).await, Leased::Waiting { ahead: 0, workers: 0 });
    harness.join("b", 1, 1).await;
    harness.lease_granted(&first).await;
}

pub async fn lines_for_different_things_do_not_meet(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    harness.join("a", 1, 0).await;
    let other = LeaseParams { offers: vec![offer("playwright-1.64")], ..harness.waiting_lease_params() };
    let foreign = LeaseParams { kind: kind("firefox"), ..harness.waiting_lease_params() };
    harness.lease(&other).await;
    harness.lease(&foreign).await;
    harness.open().await;
    harness.lease(&harness.waiting_lease_params()).await;
    let mut lines = harness.fleet().list_waiting().await.unwrap();
    lines.sort_by_key(|line| (line.kind.clone(), line.offer.clone()));
    let line = |of: &str, offered: &str| WaitingInfo { kind: kind(of), offer: offer(offered), waiting: 1 };
    assert_eq!(lines, [line("chromium", "cdp"), line("chromium", "playwright-1.64"), line("firefox", "cdp")]);
}

pub async fn who_gives_up_makes_way(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (first, second) = (harness.waiting_lease_params(), harness.waiting_lease_params());
    harness.lease(&first).await;
    harness.lease(&second).await;
    assert!(harness.release(&first.session).await);
    assert!(!harness.release(&first.session).await);
    harness.join("a", 1, 0).await;
    harness.lease_granted(&second).await;
    assert!(harness.fleet().list_waiting().await.unwrap().is_empty());
}

pub async fn who_does_not_ask_again_loses_its_place(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let gone = LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..harness.lease_params() };
    harness.lease(&gone).await;
    let waiting = harness.waiting_lease_params();
    assert!(matches!(harness.lease(&waiting).await, Leased::Waiting { ahead: 1, .. }));
    harness.join("a", 1, 0).await;
    until("its turn", || async { matches!(harness.lease(&waiting).await, Leased::Granted(_)).then_some(()) }).await;
}

pub async fn places_that_nobody_asked_for_are_reaped(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    harness.lease(&LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..harness.lease_params() }).await;
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    harness.reap().await;
    assert!(harness.fleet().list_waiting().await.unwrap().is_empty());
    let left = subject.list_leftovers().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn whoever_waits_hears_of_a_session_that_ends(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    harness.join("a", 1, 0).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        let (session, _) = harness.open().await;
        let waiting = harness.waiting_lease_params();
        harness.lease(&waiting).await;
        harness.release(&session).await;
        harness.release(&waiting.session).await;
    })
    .await;
}

pub async fn whoever_waits_hears_of_a_member_that_joins(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let waiting = harness.waiting_lease_params();
    harness.lease(&waiting).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        harness.join_entry(&chromium("a", 1, 0)).await;
    })
    .await;
    harness.lease_granted(&waiting).await;
}

pub async fn the_next_hears_when_the_first_was_served(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        let (first, second) = (harness.waiting_lease_params(), harness.waiting_lease_params());
        harness.lease(&first).await;
        harness.lease(&second).await;
        harness.join("a", 2, 0).await;
        harness.lease_granted(&first).await;
        harness.release(&first.session).await;
        harness.release(&second.session).await;
    })
    .await;
}

pub async fn a_crowd_is_served_to_the_last(subject: StoreUnderTest) {
    let (here, there) = (subject.fleet_harness(), FleetHarness::new(subject.other_connection().await));
    here.join("a", 2, 0).await;
    here.join("b", 1, 0).await;
    let served = (0..30).map(|n| {
        let harness = if n % 2 == 0 { here.clone() } else { there.clone() };
        async move {
            let params = harness.waiting_lease_params();
            let grant = until("its turn", || async {
                match harness.lease(&params).await {
                    Leased::Granted(grant) => Some(grant),
                    _ => None,
                }
            })
            .await;
            let most = if grant.worker.name.as_str() == "a" { 2 } else { 1 };
            assert!(harness.counts(&grant.worker).await.0 <= most);
            assert!(harness.release(&params.session).await);
        }
    });
    join_all(served).await;
    assert!(here.sessions(None).await.is_empty());
    assert!(here.fleet().list_waiting().await.unwrap().is_empty());
}
