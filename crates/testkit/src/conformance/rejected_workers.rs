//! A waiting session that rejected the free browsers does not block sessions that could use them.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::wake::Wake;
use tidemill_core::store::fleet::{LeaseParams, Leased, WaitParams, MAX_REJECTED_WORKERS};

use super::StoreUnderTest;
use super::harness::{SHORT, FleetHarness, kind, until};
use super::wake::WakeListeners;

/// A params that waits, of one that cannot use this member.
fn without(harness: &FleetHarness, member: &WorkerKey) -> LeaseParams {
    LeaseParams { rejected: vec![member.clone()], ..harness.waiting_lease_params() }
}

/// Gives back the member it has: it waits before all others.
async fn give_back(harness: &FleetHarness, params: &mut LeaseParams, member: &WorkerKey) {
    params.rejected.push(member.clone());
    assert!(matches!(harness.lease(params).await, Leased::Waiting { ahead: 0, .. }), "there is no other");
}

/// Asserts that nothing is granted, whether the session waits or not, although others before it are
/// not served.
async fn nothing_for(harness: &FleetHarness, params: &LeaseParams) {
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { .. }), "a newcomer gets nothing");
    let answer = harness.lease(params).await;
    assert!(matches!(answer, Leased::Waiting { ahead: 1.., .. }), "{answer:?}");
}

pub async fn what_the_first_in_line_refuses_is_given_to_the_next(subject: StoreUnderTest) {
    let (here, there) = (subject.fleet_harness(), FleetHarness::new(subject.other_connection().await));
    let a = here.join("a", 1, 0).await;
    let (mut unlucky, next) = (here.waiting_lease_params(), there.waiting_lease_params());
    here.lease_granted(&unlucky).await;
    assert!(matches!(there.lease(&next).await, Leased::Waiting { ahead: 0, .. }));
    give_back(&here, &mut unlucky, &a).await;
    assert_eq!(there.lease_granted(&next).await.worker, a);
    there.release(&next.session).await;
    assert_eq!(there.open().await.1.worker, a, "nor does a newcomer have to wait");
    assert!(matches!(here.lease(&unlucky).await, Leased::Waiting { ahead: 0, .. }), "it has its place");
}

/// Two members are free. The first in line refuses one, and the other is the one that would be chosen.
async fn one_for_each(harness: &FleetHarness) -> (LeaseParams, WorkerKey, WorkerKey) {
    let mut first = harness.waiting_lease_params();
    let a = harness.join("a", 1, 0).await;
    harness.lease_granted(&first).await;
    let b = harness.join("b", 1, 0).await;
    harness.release(&harness.open().await.0).await;
    let (session, grant) = harness.open().await;
    assert_eq!(grant.worker, b);
    give_back(harness, &mut first, &a).await;
    harness.release(&session).await;
    (first, a, b)
}

pub async fn the_next_is_given_what_the_first_refuses_and_nothing_else(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (first, a, b) = one_for_each(&harness).await;
    assert_eq!(harness.lease_granted(&harness.waiting_lease_params()).await.worker, a, "the first can use {b}");
    nothing_for(&harness, &harness.waiting_lease_params()).await;
    assert_eq!(harness.lease_granted(&first).await.worker, b);
}

pub async fn the_first_takes_what_it_can_use_and_leaves_the_rest(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (first, a, b) = one_for_each(&harness).await;
    assert_eq!(harness.lease_granted(&first).await.worker, b);
    assert_eq!(harness.lease_granted(&harness.waiting_lease_params()).await.worker, a);
}

pub async fn what_one_of_those_before_could_use_is_not_given(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (a, b) = (harness.join("a", 1, 0).await, harness.join("b", 1, 0).await);
    let holds = [harness.open().await.0, harness.open().await.0];
    let (first, second, third) = (without(&harness, &a), without(&harness, &b), harness.waiting_lease_params());
    for params in [&first, &second, &third] {
        assert!(matches!(harness.lease(params).await, Leased::Waiting { .. }));
    }
    for session in &holds {
        harness.release(session).await;
    }
    nothing_for(&harness, &third).await;
    assert_eq!(harness.lease_granted(&second).await.worker, a, "the first refuses it");
    nothing_for(&harness, &third).await;
    assert_eq!(harness.lease_granted(&first).await.worker, b);
}

pub async fn what_all_who_are_before_refuse_is_found_among_what_only_some_do(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let mut free = Vec::new();
    for name in ["a", "b", "c"] {
        free.push(harness.join(name, 1, 0).await);
    }
    for member in &free {
        let others = free.iter().filter(|other| *other != member).cloned().collect();
        harness.lease(&LeaseParams { rejected: free.clone(), ..harness.waiting_lease_params() }).await;
        let params = LeaseParams { rejected: others, ..harness.lease_params() };
        assert_eq!(harness.lease_granted(&params).await.worker, *member);
        harness.release(&params.session).await;
    }
    let picky = LeaseParams { rejected: vec![free[2].clone(), free[1].clone()], ..harness.waiting_lease_params() };
    let grant = harness.lease_granted(&picky).await;
    assert_eq!(grant.worker, free[0], "three are before it that refuse everything");
    harness.release(&picky.session).await;
    let held = harness.lease_granted(&LeaseParams { rejected: vec![free[2].clone(), free[1].clone()], ..harness.lease_params() }).await;
    assert_eq!(held.worker, free[0]);
    assert!(matches!(harness.lease(&picky).await, Leased::Waiting { ahead: 3, .. }));
    let mut given = [harness.open().await.1.worker, harness.open().await.1.worker];
    given.sort();
    assert_eq!(given, [free[1].clone(), free[2].clone()]);
}

pub async fn who_refuses_nothing_still_comes_first(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (mut unlucky, patient, last) = (harness.waiting_lease_params(), harness.waiting_lease_params(), harness.waiting_lease_params());
    harness.lease_granted(&unlucky).await;
    harness.lease(&patient).await;
    harness.lease(&last).await;
    give_back(&harness, &mut unlucky, &a).await;
    nothing_for(&harness, &last).await;
    assert_eq!(harness.lease_granted(&patient).await.worker, a);
    harness.release(&patient.session).await;
    assert_eq!(harness.lease_granted(&last).await.worker, a);
}

pub async fn only_the_latest_refusals_count(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let mut first = without(&harness, &a);
    harness.lease(&first).await;
    let (session, grant) = harness.open().await;
    assert_eq!(grant.worker, a);
    first.rejected.clear();
    assert!(matches!(harness.lease(&first).await, Leased::Waiting { ahead: 0, .. }));
    harness.release(&session).await;
    let next = harness.waiting_lease_params();
    nothing_for(&harness, &next).await;
    first.rejected.push(a.clone());
    assert!(matches!(harness.lease(&first).await, Leased::Waiting { ahead: 0, .. }));
    assert_eq!(harness.lease_granted(&next).await.worker, a);
}

pub async fn what_was_refused_is_forgotten_with_the_place_in_line(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let line = Some(WaitParams { max_waiting: 10, ttl: SHORT });
    let absent = LeaseParams { wait: line, ..without(&harness, &a) };
    assert!(matches!(harness.lease(&absent).await, Leased::Waiting { ahead: 0, .. }));
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    let patient = harness.waiting_lease_params();
    assert!(matches!(harness.lease(&patient).await, Leased::Waiting { ahead: 0, .. }));
    let back = LeaseParams { session: absent.session, ..harness.waiting_lease_params() };
    assert!(matches!(harness.lease(&back).await, Leased::Waiting { ahead: 1, .. }), "at the end of the line");
    harness.release(&session).await;
    harness.lease_granted(&patient).await;
    harness.release(&patient.session).await;
    nothing_for(&harness, &harness.waiting_lease_params()).await;
    assert_eq!(harness.lease_granted(&back).await.worker, a);
}

pub async fn refusals_leave_nothing_behind(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let gone: WorkerKey = "chromium:gone".parse().unwrap();
    let (given_up, served) = (without(&harness, &gone), without(&harness, &gone));
    harness.lease(&LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..without(&harness, &gone) }).await;
    harness.lease(&given_up).await;
    harness.lease(&served).await;
    assert!(harness.release(&given_up.session).await);
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    harness.reap().await;
    let a = harness.join("a", 1, 0).await;
    harness.lease_granted(&served).await;
    harness.release(&served.session).await;
    harness.fleet().part(&[a]).await.unwrap();
    let left = subject.list_leftovers().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn who_may_have_what_was_given_back_hears_of_it(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let params = || LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..harness.lease_params() };
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        // Whoever gave up its place would have the others called; one that runs out is not noticed by anybody.
        until("an empty line", || async { harness.fleet().list_waiting().await.unwrap().is_empty().then_some(()) }).await;
        let (mut unlucky, next) = (params(), params());
        harness.lease_granted(&unlucky).await;
        harness.lease(&next).await;
        give_back(&harness, &mut unlucky, &a).await;
    })
    .await;
}

pub async fn nobody_refuses_more_than_a_few(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let members = |most| (0..most).map(|n| format!("chromium:{n}").parse().unwrap()).collect();
    let picky = LeaseParams { rejected: members(MAX_REJECTED_WORKERS), ..harness.waiting_lease_params() };
    assert!(matches!(harness.lease(&picky).await, Leased::Waiting { .. }));
    let too_picky = LeaseParams { rejected: members(MAX_REJECTED_WORKERS + 1), ..harness.waiting_lease_params() };
    assert!(matches!(harness.fleet().lease(&too_picky).await, Err(Error::Invalid(_))));
}
