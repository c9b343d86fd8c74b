//! The workers of the fleet: joining, beating, leaving, expiring.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::fleet::{WorkerKey, WorkerDefaults};
use tidemill_core::store::fleet::{Attached, BeatParams, Leased, WorkerEntry, WorkerInfo, WorkerOrders, WorkerStatus};
use tidemill_core::wake::Wake;

use super::harness::{LONG, SHORT, chromium, kind, until};
use super::wake::WakeListeners;
use super::StoreUnderTest;

fn short_lived(name: &str) -> WorkerEntry {
    WorkerEntry { beat_timeout: SHORT, ..chromium(name, 2, 0) }
}

pub async fn a_member_that_joins_is_there_for_everyone_as_it_described_itself(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 3, 7);
    harness.join_entry(&member).await;
    let other = subject.other_connection().await;
    let seen = other.get_worker(&member.id).await.unwrap().expect("it is there");
    assert_eq!(seen.worker, member);
    assert_eq!((seen.is_fresh, seen.drain_ordered, seen.active, seen.lifetime), (true, false, 0, 0));
    assert!(seen.last_beat <= harness.store.clock().now());
}

pub async fn a_member_without_an_endpoint_is_listed_and_never_given(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = WorkerEntry {
        id: "jobs:host:1:0:abcd".parse().unwrap(),
        endpoint: String::new(),
        ..chromium("x", 0, 0)
    };
    harness.join_entry(&member).await;
    assert_eq!(harness.members(None).await[0].worker, member);
    let mut params = harness.lease_params();
    params.kind = kind("jobs");
    assert!(matches!(harness.lease(&params).await, Leased::Refused { .. }));
}

pub async fn a_beat_brings_what_has_changed(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let mut member = chromium("a", 1, 0);
    harness.join_entry(&member).await;
    let before = harness.member(&member.id).await.unwrap().last_beat;
    (member.capacity.concurrent, member.endpoint) = (5, "ws://127.0.0.1:1/other".to_owned());
    member.status = WorkerStatus::Draining;
    assert_eq!(harness.beat(&member).await, WorkerOrders { drain: false, active: 0, lifetime: 0 });
    let seen = harness.member(&member.id).await.unwrap();
    assert_eq!(seen.worker, member);
    assert!(seen.last_beat >= before);
}

pub async fn beats_of_many_are_answered_in_order(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let members: Vec<_> = (0..20).map(|n| chromium(&format!("m{n}"), 1, 0)).collect();
    harness.fleet().join(&members).await.unwrap();
    harness.fleet().drain(&members[7].id).await.unwrap();
    let orders = harness.fleet().beat(BeatParams { workers: &members, grace: LONG }).await.unwrap();
    let ordered: Vec<_> = orders.iter().enumerate().filter(|(_, o)| o.drain).map(|(n, _)| n).collect();
    assert_eq!((orders.len(), ordered), (20, vec![7]));
    let nobody = harness.fleet().beat(BeatParams { workers: &[], grace: LONG }).await.unwrap();
    assert!(nobody.is_empty());
}

pub async fn a_beat_enters_whole_whom_the_store_does_not_know(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 9);
    harness.beat(&member).await;
    assert_eq!(harness.member(&member.id).await.unwrap().worker, member);
    assert_eq!(harness.open().await.1.worker, member.id);
}

pub async fn whoever_is_entered_anew_gets_no_session_for_a_while(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 0);
    harness.beat_after(&member, SHORT).await;
    // Another beat does not change the grace period.
    harness.beat_after(&member, LONG).await;
    until("the end of its grace", || async {
        matches!(harness.lease(&harness.lease_params()).await, Leased::Granted(_)).then_some(())
    })
    .await;
    let slow = chromium("slow", 2, 0);
    harness.fleet().part(from_ref(&member.id)).await.unwrap();
    harness.beat_after(&slow, LONG).await;
    assert!(matches!(
        harness.lease(&harness.lease_params()).await,
        Leased::Refused { workers: 1, .. }
    ));
}

pub async fn whoever_has_not_beaten_for_too_long_gets_no_session_before_holders_have_spoken(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = WorkerEntry { beat_timeout: SHORT, ..chromium("a", 1, 9) };
    harness.join_entry(&member).await;
    let (session, _) = subject.fleet_harness().with_lease(SHORT).open().await;
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    let back = WorkerEntry { beat_timeout: LONG, ..member.clone() };
    assert_eq!(harness.beat_after(&back, LONG).await, WorkerOrders { drain: false, active: 0, lifetime: 1 });
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { workers: 1, .. }));
    assert_eq!(harness.attach(&harness.attach_params(&session, &member.id)).await, Attached::Held);
    assert_eq!(harness.beat_after(&back, LONG).await.active, 1);
}

pub async fn a_member_that_joins_again_begins_anew(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 9);
    harness.join_entry(&member).await;
    let (session, _) = harness.open().await;
    harness.fleet().drain(&member.id).await.unwrap();
    harness.join_entry(&member).await;
    assert_eq!(harness.beat(&member).await, WorkerOrders { drain: false, active: 0, lifetime: 0 });
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
}

pub async fn a_member_that_parts_is_gone_with_all_it_had(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 2, 0).await;
    let (session, _) = harness.open().await;
    harness.fleet().drain(&a).await.unwrap();
    harness.fleet().part(from_ref(&a)).await.unwrap();
    harness.fleet().part(from_ref(&a)).await.unwrap();
    assert!(harness.member(&a).await.is_none());
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
    assert!(harness.members(None).await.is_empty());
    let left = subject.list_leftovers().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn members_are_listed_by_kind_page_by_page(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    for n in 0..8 {
        harness.join(&format!("m{n}"), 1, 0).await;
    }
    let firefox = WorkerEntry { id: "firefox:f".parse().unwrap(), ..chromium("x", 1, 0) };
    harness.join_entry(&firefox).await;
    let names = |infos: Vec<WorkerInfo>| {
        let mut names: Vec<_> = infos.iter().map(|info| info.worker.id.to_string()).collect();
        names.sort();
        names
    };
    let mut all: Vec<_> = (0..8).map(|n| format!("chromium:m{n}")).collect();
    assert_eq!(names(harness.members(Some(&kind("chromium"))).await), all);
    all.push("firefox:f".to_owned());
    assert_eq!(names(harness.members(None).await), all);
    assert!(harness.members(Some(&kind("webkit"))).await.is_empty());
}

pub async fn a_member_that_is_ordered_to_drain_hears_of_it_and_is_given_to_nobody(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 0);
    harness.join_entry(&member).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Worker(member.id.clone()), || async {
        assert!(harness.fleet().drain(&member.id).await.unwrap());
    })
    .await;
    assert!(harness.beat(&member).await.drain);
    assert!(harness.member(&member.id).await.unwrap().drain_ordered);
    assert!(matches!(
        harness.lease(&harness.lease_params()).await,
        Leased::Refused { .. }
    ));
}

pub async fn nobody_who_is_not_there_is_ordered_anything(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let nobody: WorkerKey = "chromium:nobody".parse().unwrap();
    assert!(!harness.fleet().drain(&nobody).await.unwrap());
    assert!(subject.list_leftovers().await.is_empty());
}

pub async fn a_member_that_does_not_beat_is_reaped_with_its_sessions(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    // Long enough for the session to be opened on a busy machine.
    let dead = WorkerEntry { beat_timeout: Duration::from_secs(2), ..chromium("dead", 2, 0) };
    harness.join_entry(&dead).await;
    let (session, grant) = harness.open().await;
    assert_eq!(grant.worker, dead.id);
    let alive = harness.join("alive", 1, 0).await;
    let reaped = until("a reap", || async {
        let reaped = harness.reap().await;
        (!reaped.workers.is_empty()).then_some(reaped)
    })
    .await;
    assert_eq!((reaped.workers, reaped.sessions), (vec![dead.id.clone()], 1));
    assert!(harness.member(&dead.id).await.is_none());
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
    assert!(harness.member(&alive).await.is_some());
    assert!(harness.reap().await.workers.is_empty());
}

pub async fn a_member_that_does_not_beat_is_given_to_nobody_even_before_it_is_reaped(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let dead = short_lived("dead");
    harness.join_entry(&dead).await;
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    assert!(matches!(
        harness.lease(&harness.lease_params()).await,
        Leased::Refused { workers: 0, .. }
    ));
    harness.beat(&WorkerEntry { beat_timeout: LONG, ..dead.clone() }).await;
    assert_eq!(harness.open().await.1.worker, dead.id);
}

pub async fn many_who_reap_at_once_reap_each_once(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let dead: Vec<_> = (0..30).map(|n| short_lived(&format!("d{n}"))).collect();
    harness.fleet().join(&dead).await.unwrap();
    let other = subject.other_connection().await;
    let mut reaped = Vec::new();
    while reaped.len() < 30 {
        let (here, there) = futures_util::join!(harness.reap(), other.reap(Some(WorkerDefaults::default())));
        reaped.extend([here.workers, there.unwrap().workers].concat());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    reaped.sort();
    let count = reaped.len();
    reaped.dedup();
    assert_eq!((count, reaped.len()), (30, 30));
}
