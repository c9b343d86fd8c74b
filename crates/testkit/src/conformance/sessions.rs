//! Sessions are leases: granted, renewed, taken over, ended, lost.

use std::slice::from_ref;

use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{AttachParams, Attached, LeaseParams, Leased, ReleaseParams};
use tidemill_core::wake::Wake;

use super::harness::{LONG, SHORT, FleetHarness, chromium, until};
use super::wake::WakeListeners;
use super::StoreUnderTest;

pub async fn a_session_is_there_for_everyone_as_it_was_described(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let params = LeaseParams { keep: LONG, ..harness.lease_params() };
    let grant = harness.lease_granted(&params).await;
    assert_eq!((&grant.worker, grant.endpoint.ends_with("/a"), grant.offer.as_str()), (&a, true, "cdp"));
    assert!(grant.until > harness.store.clock().now());
    let other = subject.other_connection().await;
    let seen = other.get_session(&params.session).await.unwrap().expect("it is there");
    assert_eq!((seen.worker, seen.endpoint, seen.offer), (a, grant.endpoint, Some(grant.offer)));
    assert_eq!((seen.holder, seen.keep, seen.detail), (harness.holder.clone(), LONG, params.detail));
    assert_eq!((seen.connected, seen.closing), (false, false));
}

pub async fn asking_again_gives_the_same_member_and_takes_no_second_place(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 2, 0).await;
    harness.join("b", 2, 0).await;
    let params = harness.lease_params();
    let first = harness.lease_granted(&params).await;
    let second = harness.lease_granted(&params).await;
    assert_eq!(first.worker, second.worker);
    let taken = harness.counts(&a).await.1 + harness.counts(&"chromium:b".parse().unwrap()).await.1;
    assert_eq!(taken, 1);
}

pub async fn a_lease_that_is_repeated_is_answered_as_before(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let (a, b) = (harness.join("a", 1, 1).await, harness.join("b", 1, 1).await);
    let mut params = harness.waiting_lease_params();
    let first = harness.lease_granted(&params).await.worker;
    assert_eq!(harness.lease_granted(&params).await.worker, first, "although it is spent");
    // The answer to an exchange is lost as easily.
    params.rejected.push(first.clone());
    let second = harness.lease_granted(&params).await.worker;
    assert_eq!(harness.lease_granted(&params).await.worker, second);
    assert_eq!([harness.counts(&a).await.1, harness.counts(&b).await.1], [1, 1]);
    let (waits, refused) = (harness.waiting_lease_params(), harness.lease_params());
    for _ in 0..2 {
        assert_eq!(harness.lease(&waits).await, Leased::Waiting { ahead: 0, workers: 2 });
        assert_eq!(harness.lease(&refused).await, Leased::Refused { waiting: 1, workers: 2 });
    }
    assert_eq!(harness.sessions(None).await.len(), 1);
}

pub async fn a_session_that_nobody_extends_gives_its_place_back(subject: StoreUnderTest) {
    let harness = subject.fleet_harness().with_lease(SHORT);
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let second = until("the place", || async {
        let params = harness.lease_params();
        matches!(harness.lease(&params).await, Leased::Granted(_)).then_some(params.session)
    })
    .await;
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(harness.counts(&a).await.1, 2);
    harness.reap().await;
    until("an empty member", || async { (harness.counts(&a).await.0 == 0).then_some(()) }).await;
    assert!(!harness.release(&second).await, "it has run out");
    assert_eq!(harness.counts(&a).await, (0, 2), "nothing goes below zero");
}

pub async fn a_session_that_has_run_out_is_reaped_once(subject: StoreUnderTest) {
    let harness = subject.fleet_harness().with_lease(SHORT);
    harness.join("a", 3, 0).await;
    for _ in 0..3 {
        harness.open().await;
    }
    let mut reaped = 0;
    until("all three", || async { harness.sessions(None).await.is_empty().then_some(()) }).await;
    for _ in 0..3 {
        reaped += harness.reap().await.sessions;
    }
    assert_eq!(reaped, 3);
}

pub async fn a_session_that_is_extended_does_not_run_out(subject: StoreUnderTest) {
    let harness = subject.fleet_harness().with_lease(SHORT);
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let long = AttachParams { ttl: LONG, ..harness.attach_params(&session, &a) };
    assert_eq!(harness.attach(&long).await, Attached::Held);
    tokio::time::sleep(SHORT * 2).await;
    harness.reap().await;
    let seen = harness.fleet().get_session(&session).await.unwrap().expect("it is still there");
    assert!(seen.connected);
    assert_eq!(harness.counts(&a).await.0, 1);
}

pub async fn a_session_that_is_kept_outlives_its_connection(subject: StoreUnderTest) {
    let harness = subject.fleet_harness().with_lease(SHORT);
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let left = AttachParams { keep: LONG, connected: false, ..harness.attach_params(&session, &a) };
    assert_eq!(harness.attach(&left).await, Attached::Held);
    tokio::time::sleep(SHORT * 2).await;
    harness.reap().await;
    let seen = harness.fleet().get_session(&session).await.unwrap().expect("it is kept");
    assert!(!seen.connected);
}

pub async fn a_session_nobody_is_connected_to_goes_to_who_comes_back(subject: StoreUnderTest) {
    let (here, there) = (subject.fleet_harness(), FleetHarness::new(subject.other_connection().await));
    let a = here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    assert_eq!(here.attach(&AttachParams { connected: false, ..here.attach_params(&session, &a) }).await, Attached::Held);
    assert_eq!(there.attach(&there.attach_params(&session, &a)).await, Attached::Held);
    assert_eq!(there.fleet().get_session(&session).await.unwrap().unwrap().holder, there.holder);
    assert_eq!(here.attach(&here.attach_params(&session, &a)).await, Attached::Lost);
    assert!(!here.release(&session).await, "it is another's");
    assert!(there.release(&session).await);
}

pub async fn a_session_is_taken_over_only_by_who_says_so(subject: StoreUnderTest) {
    let (here, there) = (subject.fleet_harness(), FleetHarness::new(subject.other_connection().await));
    let a = here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    here.attach(&here.attach_params(&session, &a)).await;
    assert_eq!(there.attach(&there.attach_params(&session, &a)).await, Attached::Lost);
    assert_eq!(here.attach(&here.attach_params(&session, &a)).await, Attached::Held);
    let taking = AttachParams { take_over: true, ..there.attach_params(&session, &a) };
    assert_eq!(there.attach(&taking).await, Attached::Held);
    assert_eq!(here.attach(&here.attach_params(&session, &a)).await, Attached::Lost);
    assert_eq!(here.counts(&a).await, (1, 1));
}

pub async fn a_session_the_store_has_forgotten_is_entered_again(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 0);
    harness.join_entry(&member).await;
    let (session, _) = harness.open().await;
    // To the store, leaving and beating again is the same as losing its data.
    harness.fleet().part(from_ref(&member.id)).await.unwrap();
    let held = harness.attach_params(&session, &member.id);
    assert_eq!(harness.attach(&held).await, Attached::Held, "before its member is back");
    harness.beat(&member).await;
    assert_eq!(harness.counts(&member.id).await.0, 1);
    assert_eq!(harness.attach(&held).await, Attached::Held, "and after it");
    assert_eq!(harness.counts(&member.id).await.0, 1);
    let seen = harness.fleet().get_session(&session).await.unwrap().unwrap();
    assert_eq!((seen.started_at, seen.endpoint), (held.started_at, member.endpoint));
    assert!(harness.release(&session).await);
    assert_eq!(harness.counts(&member.id).await.0, 0);
}

pub async fn a_session_whose_place_is_taken_is_lost(subject: StoreUnderTest) {
    let harness = subject.fleet_harness().with_lease(SHORT);
    let a = harness.join("a", 1, 0).await;
    let (late, _) = harness.open().await;
    until("the place", || async {
        let params = LeaseParams { ttl: LONG, ..harness.lease_params() };
        matches!(harness.lease(&params).await, Leased::Granted(_)).then_some(())
    })
    .await;
    assert_eq!(harness.attach(&harness.attach_params(&late, &a)).await, Attached::Lost);
    assert_eq!(harness.counts(&a).await.0, 1);
}

pub async fn what_is_held_is_said_for_many_at_once(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 50, 0).await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(harness.attach_params(&harness.open().await.0, &a));
    }
    held[20].holder = HolderId::from_process("another", 9, 0);
    held[20].connected = true;
    // Nothing has connected to the twentieth, so any holder that attaches to it gets it.
    let answers = harness.fleet().attach(&held).await.unwrap();
    assert_eq!(answers, vec![Attached::Held; 50]);
    let answers = harness.fleet().attach(&held).await.unwrap();
    assert_eq!(answers, vec![Attached::Held; 50]);
    let releases: Vec<_> = held
        .iter()
        .map(|held| ReleaseParams { session: held.session.clone(), holder: harness.holder.clone() })
        .collect();
    let mut expected = vec![true; 50];
    expected[20] = false;
    assert_eq!(harness.fleet().release(&releases).await.unwrap(), expected);
    assert_eq!(harness.counts(&a).await, (1, 50));
    assert!(harness.fleet().attach(&[]).await.unwrap().is_empty());
    assert!(harness.fleet().release(&[]).await.unwrap().is_empty());
}

pub async fn a_session_is_ended_once(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let stranger = ReleaseParams { session: session.clone(), holder: HolderId::from_process("stranger", 1, 0) };
    assert_eq!(harness.fleet().release(&[stranger]).await.unwrap(), [false]);
    assert!(harness.release(&session).await);
    assert!(!harness.release(&session).await);
    assert_eq!(harness.counts(&a).await, (0, 1));
}

pub async fn the_end_of_a_session_is_announced_to_its_member(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Worker(a.clone()), || async {
        let (session, _) = harness.open().await;
        harness.release(&session).await;
    })
    .await;
}

pub async fn a_member_hears_of_its_last_session_when_that_begins(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 1).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Worker(a.clone()), || async {
        // One that joins again begins anew.
        harness.join("a", 1, 1).await;
        harness.open().await;
    })
    .await;
}

pub async fn whoever_holds_a_session_is_asked_to_close_it(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let held = harness.attach_params(&session, &a);
    harness.attach(&held).await;
    let mut listeners = WakeListeners::open(&subject).await;
    listeners.expect_wake(|wake| *wake == Wake::Session(session.clone()), || async {
        assert!(harness.fleet().close(&session).await.unwrap());
    })
    .await;
    assert!(harness.fleet().get_session(&session).await.unwrap().unwrap().closing);
    assert_eq!(harness.attach(&held).await, Attached::Closing);
    assert_eq!(harness.counts(&a).await.0, 1, "its place is taken until it is released");
    assert!(harness.release(&session).await);
    assert!(!harness.fleet().close(&session).await.unwrap());
}

pub async fn a_session_that_must_be_known_is_not_entered_again(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    let held = AttachParams { must_exist: true, ..harness.attach_params(&session, &a) };
    assert_eq!(harness.attach(&held).await, Attached::Held);
    assert!(harness.release(&session).await);
    assert_eq!(harness.attach(&held).await, Attached::Closing);
    assert_eq!(harness.counts(&a).await.0, 0);
    // Ended between its lease and its first client.
    let (session, _) = harness.open().await;
    assert!(harness.fleet().close(&session).await.unwrap());
    let held = AttachParams { must_exist: true, ..harness.attach_params(&session, &a) };
    assert_eq!(harness.attach(&held).await, Attached::Closing);
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(harness.attach(&AttachParams { must_exist: false, ..held }).await, Attached::Held);
}

pub async fn a_session_nobody_is_connected_to_is_closed_on_the_spot(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 1, 0).await;
    let (session, _) = harness.open().await;
    harness.attach(&AttachParams { keep: LONG, connected: false, ..harness.attach_params(&session, &a) }).await;
    assert!(harness.fleet().close(&session).await.unwrap());
    assert!(harness.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(harness.counts(&a).await, (0, 1));
    harness.open().await;
}

pub async fn sessions_are_listed_by_member_page_by_page(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 7, 0).await;
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(harness.open().await.0);
    }
    let b = harness.join("b", 7, 0).await;
    let params = LeaseParams { rejected: vec![a.clone()], ..harness.lease_params() };
    assert_eq!(harness.lease_granted(&params).await.worker, b);
    let mut of_a: Vec<_> = harness.sessions(Some(&a)).await.into_iter().map(|seen| seen.session).collect();
    of_a.sort();
    all.sort();
    assert_eq!(of_a, all);
    all.push(params.session);
    let mut seen: Vec<_> = harness.sessions(None).await.into_iter().map(|seen| seen.session).collect();
    seen.sort();
    all.sort();
    assert_eq!(seen, all);
}

pub async fn a_spent_member_is_ordered_to_drain_when_its_session_ends(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let member = chromium("a", 2, 2);
    harness.join_entry(&member).await;
    let (first, _) = harness.open().await;
    let (second, _) = harness.open().await;
    harness.release(&first).await;
    let orders = harness.beat(&member).await;
    assert_eq!((orders.drain, orders.active, orders.lifetime), (true, 1, 2));
    harness.release(&second).await;
    assert_eq!(harness.beat(&member).await.active, 0);
}

pub async fn sessions_that_have_ended_leave_nothing(subject: StoreUnderTest) {
    let harness = subject.fleet_harness();
    let a = harness.join("a", 9, 3).await;
    let (first, _) = harness.open().await;
    let (second, _) = harness.open().await;
    harness.attach(&harness.attach_params(&first, &a)).await;
    harness.fleet().close(&first).await.unwrap();
    harness.release(&first).await;
    harness.clone().with_lease(SHORT).open().await;
    assert!(harness.release(&second).await);
    until("the short one", || async { (harness.counts(&a).await.0 == 0).then_some(()) }).await;
    harness.reap().await;
    harness.fleet().part(from_ref(&a)).await.unwrap();
    until("nothing", || async { subject.list_leftovers().await.is_empty().then_some(()) }).await;
}
