//! Who is in the fleet: entering, living, leaving, dying.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::fleet::{WorkerKey, WorkerDefaults};
use tidemill_core::store::fleet::{Attached, BeatParams, Leased, WorkerEntry, WorkerInfo, WorkerOrders, WorkerStatus};
use tidemill_core::wake::Wake;

use super::scene::{LONG, SHORT, chromium, kind, until};
use super::wake::Ears;
use super::Subject;

fn short_lived(name: &str) -> WorkerEntry {
    WorkerEntry { beat_timeout: SHORT, ..chromium(name, 2, 0) }
}

pub async fn a_member_that_joins_is_there_for_everyone_as_it_described_itself(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 3, 7);
    yard.enter(&member).await;
    let other = subject.other().await;
    let seen = other.fleet().get_worker(&member.id).await.unwrap().expect("it is there");
    assert_eq!(seen.worker, member);
    assert_eq!((seen.is_fresh, seen.drain_ordered, seen.active, seen.lifetime), (true, false, 0, 0));
    assert!(seen.last_beat <= yard.store.clock().now());
}

pub async fn a_member_without_an_endpoint_is_listed_and_never_given(subject: Subject) {
    let yard = subject.yard();
    let member = WorkerEntry {
        id: "jobs:host:1:0:abcd".parse().unwrap(),
        endpoint: String::new(),
        ..chromium("x", 0, 0)
    };
    yard.enter(&member).await;
    assert_eq!(yard.members(None).await[0].worker, member);
    let mut wish = yard.wish();
    wish.kind = kind("jobs");
    assert!(matches!(yard.ask(&wish).await, Leased::Refused { .. }));
}

pub async fn a_beat_brings_what_has_changed(subject: Subject) {
    let yard = subject.yard();
    let mut member = chromium("a", 1, 0);
    yard.enter(&member).await;
    let before = yard.member(&member.id).await.unwrap().last_beat;
    (member.capacity.concurrent, member.endpoint) = (5, "ws://127.0.0.1:1/other".to_owned());
    member.status = WorkerStatus::Draining;
    assert_eq!(yard.beat(&member).await, WorkerOrders { drain: false, active: 0, lifetime: 0 });
    let seen = yard.member(&member.id).await.unwrap();
    assert_eq!(seen.worker, member);
    assert!(seen.last_beat >= before);
}

pub async fn beats_of_many_are_answered_in_order(subject: Subject) {
    let yard = subject.yard();
    let members: Vec<_> = (0..20).map(|n| chromium(&format!("m{n}"), 1, 0)).collect();
    yard.fleet().join(&members).await.unwrap();
    yard.fleet().drain(&members[7].id).await.unwrap();
    let orders = yard.fleet().beat(BeatParams { workers: &members, grace: LONG }).await.unwrap();
    let ordered: Vec<_> = orders.iter().enumerate().filter(|(_, o)| o.drain).map(|(n, _)| n).collect();
    assert_eq!((orders.len(), ordered), (20, vec![7]));
    let nobody = yard.fleet().beat(BeatParams { workers: &[], grace: LONG }).await.unwrap();
    assert!(nobody.is_empty());
}

pub async fn a_beat_enters_whole_whom_the_store_does_not_know(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 9);
    yard.beat(&member).await;
    assert_eq!(yard.member(&member.id).await.unwrap().worker, member);
    assert_eq!(yard.open().await.1.worker, member.id);
}

pub async fn whoever_is_entered_anew_gets_no_session_for_a_while(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 0);
    yard.beat_after(&member, SHORT).await;
    // It has no effect on the time of grace that it beats again.
    yard.beat_after(&member, LONG).await;
    until("the end of its grace", || async {
        matches!(yard.ask(&yard.wish()).await, Leased::Granted(_)).then_some(())
    })
    .await;
    let slow = chromium("slow", 2, 0);
    yard.fleet().part(from_ref(&member.id)).await.unwrap();
    yard.beat_after(&slow, LONG).await;
    assert!(matches!(
        yard.ask(&yard.wish()).await,
        Leased::Refused { workers: 1, .. }
    ));
}

pub async fn whoever_has_not_beaten_for_too_long_gets_no_session_before_holders_have_spoken(subject: Subject) {
    let yard = subject.yard();
    let member = WorkerEntry { beat_timeout: SHORT, ..chromium("a", 1, 9) };
    yard.enter(&member).await;
    let (session, _) = subject.yard().leasing(SHORT).open().await;
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    let back = WorkerEntry { beat_timeout: LONG, ..member.clone() };
    assert_eq!(yard.beat_after(&back, LONG).await, WorkerOrders { drain: false, active: 0, lifetime: 1 });
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { workers: 1, .. }));
    assert_eq!(yard.attach(&yard.hold(&session, &member.id)).await, Attached::Held);
    assert_eq!(yard.beat_after(&back, LONG).await.active, 1);
}

pub async fn a_member_that_joins_again_begins_anew(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 9);
    yard.enter(&member).await;
    let (session, _) = yard.open().await;
    yard.fleet().drain(&member.id).await.unwrap();
    yard.enter(&member).await;
    assert_eq!(yard.beat(&member).await, WorkerOrders { drain: false, active: 0, lifetime: 0 });
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
}

pub async fn a_member_that_parts_is_gone_with_all_it_had(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 2, 0).await;
    let (session, _) = yard.open().await;
    yard.fleet().drain(&a).await.unwrap();
    yard.fleet().part(from_ref(&a)).await.unwrap();
    yard.fleet().part(from_ref(&a)).await.unwrap();
    assert!(yard.member(&a).await.is_none());
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
    assert!(yard.members(None).await.is_empty());
    let left = subject.left_behind().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn members_are_listed_by_kind_page_by_page(subject: Subject) {
    let yard = subject.yard();
    for n in 0..8 {
        yard.join(&format!("m{n}"), 1, 0).await;
    }
    let firefox = WorkerEntry { id: "firefox:f".parse().unwrap(), ..chromium("x", 1, 0) };
    yard.enter(&firefox).await;
    let names = |infos: Vec<WorkerInfo>| {
        let mut names: Vec<_> = infos.iter().map(|info| info.worker.id.to_string()).collect();
        names.sort();
        names
    };
    let mut all: Vec<_> = (0..8).map(|n| format!("chromium:m{n}")).collect();
    assert_eq!(names(yard.members(Some(&kind("chromium"))).await), all);
    all.push("firefox:f".to_owned());
    assert_eq!(names(yard.members(None).await), all);
    assert!(yard.members(Some(&kind("webkit"))).await.is_empty());
}

pub async fn a_member_that_is_ordered_to_drain_hears_of_it_and_is_given_to_nobody(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 2, 0);
    yard.enter(&member).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Worker(member.id.clone()), || async {
        assert!(yard.fleet().drain(&member.id).await.unwrap());
    })
    .await;
    assert!(yard.beat(&member).await.drain);
    assert!(yard.member(&member.id).await.unwrap().drain_ordered);
    assert!(matches!(
        yard.ask(&yard.wish()).await,
        Leased::Refused { .. }
    ));
}

pub async fn nobody_who_is_not_there_is_ordered_anything(subject: Subject) {
    let yard = subject.yard();
    let nobody: WorkerKey = "chromium:nobody".parse().unwrap();
    assert!(!yard.fleet().drain(&nobody).await.unwrap());
    assert!(subject.left_behind().await.is_empty());
}

pub async fn a_member_that_does_not_beat_is_reaped_with_its_sessions(subject: Subject) {
    let yard = subject.yard();
    let dead = short_lived("dead");
    yard.enter(&dead).await;
    let (session, grant) = yard.open().await;
    assert_eq!(grant.worker, dead.id);
    let alive = yard.join("alive", 1, 0).await;
    let reaped = until("a reap", || async {
        let reaped = yard.reap().await;
        (!reaped.workers.is_empty()).then_some(reaped)
    })
    .await;
    assert_eq!((reaped.workers, reaped.sessions), (vec![dead.id.clone()], 1));
    assert!(yard.member(&dead.id).await.is_none());
    assert!(yard.fleet().get_session(&session).await.unwrap().is_none());
    assert!(yard.member(&alive).await.is_some());
    assert!(yard.reap().await.workers.is_empty());
}

pub async fn a_member_that_does_not_beat_is_given_to_nobody_even_before_it_is_reaped(subject: Subject) {
    let yard = subject.yard();
    let dead = short_lived("dead");
    yard.enter(&dead).await;
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    assert!(matches!(
        yard.ask(&yard.wish()).await,
        Leased::Refused { workers: 0, .. }
    ));
    yard.beat(&dead).await;
    assert_eq!(yard.open().await.1.worker, dead.id);
}

pub async fn many_who_reap_at_once_reap_each_once(subject: Subject) {
    let yard = subject.yard();
    let dead: Vec<_> = (0..30).map(|n| short_lived(&format!("d{n}"))).collect();
    yard.fleet().join(&dead).await.unwrap();
    let other = subject.other().await;
    let mut reaped = Vec::new();
    while reaped.len() < 30 {
        let (here, there) = futures_util::join!(yard.reap(), other.fleet().reap(Some(WorkerDefaults::default())));
        reaped.extend([here.workers, there.unwrap().workers].concat());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    reaped.sort();
    let count = reaped.len();
    reaped.dedup();
    assert_eq!((count, reaped.len()), (30, 30));
}
