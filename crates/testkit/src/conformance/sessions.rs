//! Sessions are leases: given, held, taken over, ended, lost.

use std::slice::from_ref;

use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{AttachParams, Attached, LeaseParams, Leased, ReleaseParams};
use tidemill_core::wake::Wake;

use super::scene::{LONG, SHORT, Yard, chromium, until};
use super::wake::Ears;
use super::Subject;

pub async fn a_session_is_there_for_everyone_as_it_was_described(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let wish = LeaseParams { keep: LONG, ..yard.wish() };
    let grant = yard.get(&wish).await;
    assert_eq!((&grant.worker, grant.endpoint.ends_with("/a"), grant.offer.as_str()), (&a, true, "cdp"));
    assert!(grant.until > yard.store.clock().now());
    let other = subject.other().await;
    let seen = other.fleet().get_session(&wish.session).await.unwrap().expect("it is there");
    assert_eq!((seen.worker, seen.endpoint, seen.offer), (a, grant.endpoint, Some(grant.offer)));
    assert_eq!((seen.holder, seen.keep, seen.detail), (yard.holder.clone(), LONG, wish.detail));
    assert_eq!((seen.connected, seen.closing), (false, false));
}

pub async fn asking_again_gives_the_same_member_and_takes_no_second_place(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 2, 0).await;
    yard.join("b", 2, 0).await;
    let wish = yard.wish();
    let first = yard.get(&wish).await;
    let second = yard.get(&wish).await;
    assert_eq!(first.worker, second.worker);
    let taken = yard.counts(&a).await.1 + yard.counts(&"chromium:b".parse().unwrap()).await.1;
    assert_eq!(taken, 1);
}

pub async fn a_lease_that_is_repeated_is_answered_as_before(subject: Subject) {
    let yard = subject.yard();
    let (a, b) = (yard.join("a", 1, 1).await, yard.join("b", 1, 1).await);
    let mut wish = yard.patient_wish();
    let first = yard.get(&wish).await.worker;
    assert_eq!(yard.get(&wish).await.worker, first, "although it is spent");
    // The answer to an exchange is lost as easily.
    wish.rejected.push(first.clone());
    let second = yard.get(&wish).await.worker;
    assert_eq!(yard.get(&wish).await.worker, second);
    assert_eq!([yard.counts(&a).await.1, yard.counts(&b).await.1], [1, 1]);
    let (waits, refused) = (yard.patient_wish(), yard.wish());
    for _ in 0..2 {
        assert_eq!(yard.ask(&waits).await, Leased::Waiting { ahead: 0, workers: 2 });
        assert_eq!(yard.ask(&refused).await, Leased::Refused { waiting: 1, workers: 2 });
    }
    assert_eq!(yard.sessions(None).await.len(), 1);
}

pub async fn a_session_that_nobody_extends_gives_its_place_back(subject: Subject) {
    let yard = subject.yard().leasing(SHORT);
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let second = until("the place", || async {
        let wish = yard.wish();
        matches!(yard.ask(&wish).await, Leased::Granted(_)).then_some(wish.session)
    })
    .await;
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(yard.counts(&a).await.1, 2);
    yard.reap().await;
    until("an empty member", || async { (yard.counts(&a).await.0 == 0).then_some(()) }).await;
    assert!(!yard.release(&second).await, "it has run out");
    assert_eq!(yard.counts(&a).await, (0, 2), "nothing goes below zero");
}

pub async fn a_session_that_has_run_out_is_reaped_once(subject: Subject) {
    let yard = subject.yard().leasing(SHORT);
    yard.join("a", 3, 0).await;
    for _ in 0..3 {
        yard.open().await;
    }
    let mut reaped = 0;
    until("all three", || async { yard.sessions(None).await.is_empty().then_some(()) }).await;
    for _ in 0..3 {
        reaped += yard.reap().await.sessions;
    }
    assert_eq!(reaped, 3);
}

pub async fn a_session_that_is_extended_does_not_run_out(subject: Subject) {
    let yard = subject.yard().leasing(SHORT);
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let long = AttachParams { ttl: LONG, ..yard.hold(&session, &a) };
    assert_eq!(yard.attach(&long).await, Attached::Held);
    tokio::time::sleep(SHORT * 2).await;
    yard.reap().await;
    let seen = yard.fleet().get_session(&session).await.unwrap().expect("it is still there");
    assert!(seen.connected);
    assert_eq!(yard.counts(&a).await.0, 1);
}

pub async fn a_session_that_is_kept_outlives_its_connection(subject: Subject) {
    let yard = subject.yard().leasing(SHORT);
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let left = AttachParams { keep: LONG, connected: false, ..yard.hold(&session, &a) };
    assert_eq!(yard.attach(&left).await, Attached::Held);
    tokio::time::sleep(SHORT * 2).await;
    yard.reap().await;
    let seen = yard.fleet().get_session(&session).await.unwrap().expect("it is kept");
    assert!(!seen.connected);
}

pub async fn a_session_nobody_is_connected_to_goes_to_who_comes_back(subject: Subject) {
    let (here, there) = (subject.yard(), Yard::new(subject.other().await));
    let a = here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    assert_eq!(here.attach(&AttachParams { connected: false, ..here.hold(&session, &a) }).await, Attached::Held);
    assert_eq!(there.attach(&there.hold(&session, &a)).await, Attached::Held);
    assert_eq!(there.fleet().get_session(&session).await.unwrap().unwrap().holder, there.holder);
    assert_eq!(here.attach(&here.hold(&session, &a)).await, Attached::Lost);
    assert!(!here.release(&session).await, "it is another's");
    assert!(there.release(&session).await);
}

pub async fn a_session_is_taken_over_only_by_who_says_so(subject: Subject) {
    let (here, there) = (subject.yard(), Yard::new(subject.other().await));
    let a = here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    here.attach(&here.hold(&session, &a)).await;
    assert_eq!(there.attach(&there.hold(&session, &a)).await, Attached::Lost);
    assert_eq!(here.attach(&here.hold(&session, &a)).await, Attached::Held);
    let taking = AttachParams { take_over: true, ..there.hold(&session, &a) };
    assert_eq!(there.attach(&taking).await, Attached::Held);
    assert_eq!(here.attach(&here.hold(&session, &a)).await, Attached::Lost);
    assert_eq!(here.counts(&a).await, (1, 1));
}

pub async fn a_session_the_store_has_forgotten_is_entered_again(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 0);
    yard.enter(&member).await;
    let (session, _) = yard.open().await;
    // To part and to beat is to the store what losing its data is.
    yard.fleet().part(from_ref(&member.id)).await.unwrap();
    let held = yard.hold(&session, &member.id);
    assert_eq!(yard.attach(&held).await, Attached::Held, "before its member is back");
    yard.beat(&member).await;
    assert_eq!(yard.counts(&member.id).await.0, 1);
    assert_eq!(yard.attach(&held).await, Attached::Held, "and after it");
    assert_eq!(yard.counts(&member.id).await.0, 1);
    let seen = yard.fleet().get_session(&session).await.unwrap().unwrap();
    assert_eq!((seen.started_at, seen.endpoint), (held.started_at, member.endpoint));
    assert!(yard.release(&session).await);
    assert_eq!(yard.counts(&member.id).await.0, 0);
}

pub async fn a_session_whose_place_is_taken_is_lost(subject: Subject) {
    let yard = subject.yard().leasing(SHORT);
    let a = yard.join("a", 1, 0).await;
    let (late, _) = yard.open().await;
    until("the place", || async {
        let wish = LeaseParams { ttl: LONG, ..yard.wish() };
        matches!(yard.ask(&wish).await, Leased::Granted(_)).then_some(())
    })
    .await;
    assert_eq!(yard.attach(&yard.hold(&late, &a)).await, Attached::Lost);
    assert_eq!(yard.counts(&a).await.0, 1);
}

pub async fn what_is_held_is_said_for_many_at_once(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 50, 0).await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(yard.hold(&yard.open().await.0, &a));
    }
    held[20].holder = HolderId::from_process("another", 9, 0);
    held[20].connected = true;
    // The twentieth has never been connected to, so whoever says that it holds it does.
    let answers = yard.fleet().attach(&held).await.unwrap();
    assert_eq!(answers, vec![Attached::Held; 50]);
    let answers = yard.fleet().attach(&held).await.unwrap();
    assert_eq!(answers, vec![Attached::Held; 50]);
    let releases: Vec<_> = held
        .iter()
        .map(|held| ReleaseParams { session: held.session.clone(), holder: yard.holder.clone() })
        .collect();
    let mut expected = vec![true; 50];
    expected[20] = false;
    assert_eq!(yard.fleet().release(&releases).await.unwrap(), expected);
    assert_eq!(yard.counts(&a).await, (1, 50));
    assert!(yard.fleet().attach(&[]).await.unwrap().is_empty());
    assert!(yard.fleet().release(&[]).await.unwrap().is_empty());
}

pub async fn a_session_is_ended_once(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let stranger = ReleaseParams { session: session.clone(), holder: HolderId::from_process("stranger", 1, 0) };
    assert_eq!(yard.fleet().release(&[stranger]).await.unwrap(), [false]);
    assert!(yard.release(&session).await);
    assert!(!yard.release(&session).await);
    assert_eq!(yard.counts(&a).await, (0, 1));
}

pub async fn the_end_of_a_session_is_announced_to_its_member(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Worker(a.clone()), || async {
        let (session, _) = yard.open().await;
        yard.release(&session).await;
    })
    .await;
}

pub async fn a_member_hears_of_its_last_session_when_that_begins(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 1).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Worker(a.clone()), || async {
        // One that joins again begins anew.
        yard.join("a", 1, 1).await;
        yard.open().await;
    })
    .await;
}

pub async fn whoever_holds_a_session_is_asked_to_close_it(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let held = yard.hold(&session, &a);
    yard.attach(&held).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Session(session.clone()), || async {
        assert!(yard.fleet().close(&session).await.unwrap());
    })
    .await;
    assert!(yard.fleet().get_session(&session).await.unwrap().unwrap().closing);
    assert_eq!(yard.attach(&held).await, Attached::Closing);
    assert_eq!(yard.counts(&a).await.0, 1, "its place is taken until it is released");
    assert!(yard.release(&session).await);
    assert!(!yard.fleet().close(&session).await.unwrap());
}

pub async fn a_session_that_must_be_known_is_not_entered_again(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let held = AttachParams { must_exist: true, ..yard.hold(&session, &a) };
    assert_eq!(yard.attach(&held).await, Attached::Held);
    assert!(yard.release(&session).await);
    assert_eq!(yard.attach(&held).await, Attached::Closing);
    assert_eq!(yard.counts(&a).await.0, 0);
    // Ended between its lease and its first client.
    let (session, _) = yard.open().await;
    assert!(yard.fleet().close(&session).await.unwrap());
    let held = AttachParams { must_exist: true, ..yard.hold(&session, &a) };
    assert_eq!(yard.attach(&held).await, Attached::Closing);
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(yard.attach(&AttachParams { must_exist: false, ..held }).await, Attached::Held);
}

pub async fn a_session_nobody_is_connected_to_is_closed_on_the_spot(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    yard.attach(&AttachParams { keep: LONG, connected: false, ..yard.hold(&session, &a) }).await;
    assert!(yard.fleet().close(&session).await.unwrap());
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
    assert_eq!(yard.counts(&a).await, (0, 1));
    yard.open().await;
}

pub async fn sessions_are_listed_by_member_page_by_page(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 7, 0).await;
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(yard.open().await.0);
    }
    let b = yard.join("b", 7, 0).await;
    let wish = LeaseParams { rejected: vec![a.clone()], ..yard.wish() };
    assert_eq!(yard.get(&wish).await.worker, b);
    let mut of_a: Vec<_> = yard.sessions(Some(&a)).await.into_iter().map(|seen| seen.session).collect();
    of_a.sort();
    all.sort();
    assert_eq!(of_a, all);
    all.push(wish.session);
    let mut seen: Vec<_> = yard.sessions(None).await.into_iter().map(|seen| seen.session).collect();
    seen.sort();
    all.sort();
    assert_eq!(seen, all);
}

pub async fn a_spent_member_is_ordered_to_drain_when_its_session_ends(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 2);
    yard.enter(&member).await;
    let (first, _) = yard.open().await;
    let (second, _) = yard.open().await;
    yard.release(&first).await;
    let orders = yard.beat(&member).await;
    assert_eq!((orders.drain, orders.active, orders.lifetime), (true, 1, 2));
    yard.release(&second).await;
    assert_eq!(yard.beat(&member).await.active, 0);
}

pub async fn sessions_that_have_ended_leave_nothing(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 9, 3).await;
    let (first, _) = yard.open().await;
    let (second, _) = yard.open().await;
    yard.attach(&yard.hold(&first, &a)).await;
    yard.fleet().close(&first).await.unwrap();
    yard.release(&first).await;
    yard.clone().leasing(SHORT).open().await;
    assert!(yard.release(&second).await);
    until("the short one", || async { (yard.counts(&a).await.0 == 0).then_some(()) }).await;
    yard.reap().await;
    yard.fleet().part(from_ref(&a)).await.unwrap();
    until("nothing", || async { subject.left_behind().await.is_empty().then_some(()) }).await;
}
