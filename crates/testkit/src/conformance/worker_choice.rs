//! The choice of the browser that a session gets.

use futures_util::future::join_all;
use tidemill_core::fleet::{WorkerKey, Capacity};
use tidemill_core::store::fleet::{LeaseParams, Leased, WorkerEntry, WorkerStatus};

use super::harness::{FleetHarness, chromium, kind, offer};
use super::StoreUnderTest;

/// Has had this many sessions, and has none now.
async fn worn(harness: &FleetHarness, name: &str, room: Capacity, sessions: u32) -> WorkerKey {
    let member = WorkerEntry { offer: offer("wear"), ..chromium(name, 1000, 0) };
    harness.join_entry(&member).await;
    for _ in 0..sessions {
        let params = LeaseParams { offers: vec![offer("wear")], ..harness.lease_params() };
        assert_eq!(harness.lease_granted(&params).await.worker, member.id, "nobody else has this offer now");
        harness.release(&params.session).await;
    }
    let fit = WorkerEntry { capacity: room, ..chromium(name, 0, 0) };
    harness.beat(&fit).await;
    member.id
}

pub async fn the_most_used_below_the_margin_comes_first(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    // Three workers and a lifetime of thirty: a margin of ten.
    let room = Capacity { concurrent: 5, lifetime: 30 };
    let low = worn(&harness, "low", room, 3).await;
    let high = worn(&harness, "high", room, 19).await;
    let beyond = worn(&harness, "beyond", room, 20).await;
    assert_eq!(harness.open().await.1.worker, high, "19 is below 30 less 10");
    assert_eq!(harness.open().await.1.worker, low, "20 is not, and {beyond} is at 20 too");
}

pub async fn of_equals_the_one_with_the_fewest_sessions_comes_first(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let room = Capacity { concurrent: 5, lifetime: 100 };
    let busy = worn(&harness, "busy", room, 4).await;
    assert_eq!(harness.open().await.1.worker, busy);
    let idle = worn(&harness, "idle", room, 5).await;
    assert_eq!(harness.open().await.1.worker, idle);
}

pub async fn when_all_are_beyond_the_margin_any_that_has_room_is_given(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let room = Capacity { concurrent: 1, lifetime: 4 };
    let a = worn(&harness, "a", room, 3).await;
    let b = worn(&harness, "b", room, 3).await;
    let mut given = [harness.open().await.1.worker, harness.open().await.1.worker];
    given.sort();
    assert_eq!(given, [a, b]);
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { workers: 2, .. }));
}

pub async fn a_member_of_one_session_is_given_once(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 1).await;
    let (session, grant) = harness.open().await;
    assert_eq!(grant.worker, a);
    assert!(harness.release(&session).await);
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { .. }));
    assert!(harness.beat(&chromium("a", 1, 1)).await.drain, "it is spent");
    assert_eq!(harness.counts(&a).await, (0, 1));
}

pub async fn a_member_that_is_full_is_not_given_until_a_session_ends(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 2, 0).await;
    let (first, _) = harness.open().await;
    harness.open().await;
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { workers: 1, .. }));
    assert_eq!(harness.counts(&a).await, (2, 2));
    harness.release(&first).await;
    harness.open().await;
    assert_eq!(harness.counts(&a).await, (2, 3));
}

pub async fn only_members_of_the_kind_and_offer_are_given(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let old = WorkerEntry { offer: offer("playwright-1.63"), ..chromium("old", 9, 0) };
    let new = WorkerEntry { offer: offer("playwright-1.64"), ..chromium("new", 9, 0) };
    let firefox = WorkerEntry { id: "firefox:f".parse().unwrap(), offer: offer("bidi"), ..chromium("x", 9, 0) };
    for member in [&old, &new, &firefox] {
        harness.join_entry(member).await;
    }
    let params = |of: &str, offers: &[&str]| {
        let offers = offers.iter().map(|name| offer(name)).collect();
        LeaseParams { kind: kind(of), offers, ..harness.lease_params() }
    };
    assert_eq!(harness.lease_granted(&params("chromium", &["playwright-1.63"])).await.worker, old.id);
    let grant = harness.lease_granted(&params("chromium", &["cdp", "playwright-1.64"])).await;
    assert_eq!((grant.worker, grant.offer.as_str()), (new.id, "playwright-1.64"));
    assert_eq!(harness.lease_granted(&params("firefox", &["bidi"])).await.endpoint, firefox.endpoint);
    assert!(matches!(harness.lease(&params("firefox", &["cdp"])).await, Leased::Refused { workers: 0, .. }));
}

pub async fn a_draining_member_is_given_to_nobody_and_comes_back_when_it_says_so(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let mut member = chromium("a", 1, 0);
    harness.join_entry(&member).await;
    member.status = WorkerStatus::Draining;
    harness.beat(&member).await;
    assert!(matches!(harness.lease(&harness.lease_params()).await, Leased::Refused { workers: 1, .. }));
    member.status = WorkerStatus::Available;
    harness.beat(&member).await;
    assert_eq!(harness.open().await.1.worker, member.id);
}

pub async fn a_member_that_did_not_answer_is_exchanged_for_another(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (a, b) = (harness.join("a", 1, 0).await, harness.join("b", 1, 0).await);
    let mut params = harness.lease_params();
    let first = harness.lease_granted(&params).await.worker;
    params.rejected.push(first.clone());
    let second = harness.lease_granted(&params).await.worker;
    assert_ne!(first, second);
    assert_eq!(harness.counts(&first).await.0, 0, "the first was given back");
    assert_eq!(harness.counts(&second).await.0, 1);
    params.rejected.push(second);
    assert!(matches!(harness.lease(&params).await, Leased::Refused { .. }), "neither {a} nor {b} answers");
    assert!(harness.fleet().get_session(&params.session).await.unwrap().is_none());
}

pub async fn many_who_ask_at_once_exceed_no_limit(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    for n in 0..5 {
        harness.join(&format!("m{n}"), 3, 4).await;
    }
    let elsewhere = FleetHarness::new(subject.other_connection().await);
    let requests: Vec<_> = (0..40).map(|_| harness.lease_params()).collect();
    let asked = requests.iter().enumerate().map(|(n, params)| {
        let harness = if n % 2 == 0 { &harness } else { &elsewhere };
        async move { matches!(harness.lease(params).await, Leased::Granted(_)) }
    });
    let given = join_all(asked).await.into_iter().filter(|given| *given).count();
    assert_eq!(given, 15, "five times three places");
    for n in 0..5 {
        assert_eq!(harness.counts(&format!("chromium:m{n}").parse().unwrap()).await, (3, 3));
    }
}
