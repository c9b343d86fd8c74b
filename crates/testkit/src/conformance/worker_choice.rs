//! Which member a session gets: as the seed's selector chooses.

use futures_util::future::join_all;
use tidemill_core::fleet::{WorkerKey, Capacity};
use tidemill_core::store::fleet::{LeaseParams, Leased, WorkerEntry, WorkerStatus};

use super::scene::{Yard, chromium, kind, offer};
use super::Subject;

/// Has had so many sessions, and has none now.
async fn worn(yard: &Yard, name: &str, room: Capacity, sessions: u32) -> WorkerKey {
    let member = WorkerEntry { offer: offer("wear"), ..chromium(name, 1000, 0) };
    yard.enter(&member).await;
    for _ in 0..sessions {
        let wish = LeaseParams { offers: vec![offer("wear")], ..yard.wish() };
        assert_eq!(yard.get(&wish).await.worker, member.id, "nobody else has this offer now");
        yard.release(&wish.session).await;
    }
    let fit = WorkerEntry { capacity: room, ..chromium(name, 0, 0) };
    yard.beat(&fit).await;
    member.id
}

pub async fn the_most_used_below_the_margin_comes_first(subject: Subject) {
    let yard = subject.yard();
    // Three workers and a lifetime of thirty: a margin of ten.
    let room = Capacity { concurrent: 5, lifetime: 30 };
    let low = worn(&yard, "low", room, 3).await;
    let high = worn(&yard, "high", room, 19).await;
    let beyond = worn(&yard, "beyond", room, 20).await;
    assert_eq!(yard.open().await.1.worker, high, "19 is below 30 less 10");
    assert_eq!(yard.open().await.1.worker, low, "20 is not, and {beyond} is at 20 too");
}

pub async fn of_equals_the_one_with_the_fewest_sessions_comes_first(subject: Subject) {
    let yard = subject.yard();
    let room = Capacity { concurrent: 5, lifetime: 100 };
    let busy = worn(&yard, "busy", room, 4).await;
    assert_eq!(yard.open().await.1.worker, busy);
    let idle = worn(&yard, "idle", room, 5).await;
    assert_eq!(yard.open().await.1.worker, idle);
}

pub async fn when_all_are_beyond_the_margin_any_that_has_room_is_given(subject: Subject) {
    let yard = subject.yard();
    let room = Capacity { concurrent: 1, lifetime: 4 };
    let a = worn(&yard, "a", room, 3).await;
    let b = worn(&yard, "b", room, 3).await;
    let mut given = [yard.open().await.1.worker, yard.open().await.1.worker];
    given.sort();
    assert_eq!(given, [a, b]);
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { workers: 2, .. }));
}

pub async fn a_member_of_one_session_is_given_once(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 1).await;
    let (session, grant) = yard.open().await;
    assert_eq!(grant.worker, a);
    assert!(yard.release(&session).await);
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { .. }));
    assert!(yard.beat(&chromium("a", 1, 1)).await.drain, "it is spent");
    assert_eq!(yard.counts(&a).await, (0, 1));
}

pub async fn a_member_that_is_full_is_not_given_until_a_session_ends(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 2, 0).await;
    let (first, _) = yard.open().await;
    yard.open().await;
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { workers: 1, .. }));
    assert_eq!(yard.counts(&a).await, (2, 2));
    yard.release(&first).await;
    yard.open().await;
    assert_eq!(yard.counts(&a).await, (2, 3));
}

pub async fn only_members_of_the_kind_and_offer_are_given(subject: Subject) {
    let yard = subject.yard();
    let old = WorkerEntry { offer: offer("playwright-1.63"), ..chromium("old", 9, 0) };
    let new = WorkerEntry { offer: offer("playwright-1.64"), ..chromium("new", 9, 0) };
    let firefox = WorkerEntry { id: "firefox:f".parse().unwrap(), offer: offer("bidi"), ..chromium("x", 9, 0) };
    for member in [&old, &new, &firefox] {
        yard.enter(member).await;
    }
    let wish = |of: &str, offers: &[&str]| {
        let offers = offers.iter().map(|name| offer(name)).collect();
        LeaseParams { kind: kind(of), offers, ..yard.wish() }
    };
    assert_eq!(yard.get(&wish("chromium", &["playwright-1.63"])).await.worker, old.id);
    let grant = yard.get(&wish("chromium", &["cdp", "playwright-1.64"])).await;
    assert_eq!((grant.worker, grant.offer.as_str()), (new.id, "playwright-1.64"));
    assert_eq!(yard.get(&wish("firefox", &["bidi"])).await.endpoint, firefox.endpoint);
    assert!(matches!(yard.ask(&wish("firefox", &["cdp"])).await, Leased::Refused { workers: 0, .. }));
}

pub async fn a_draining_member_is_given_to_nobody_and_comes_back_when_it_says_so(subject: Subject) {
    let yard = subject.yard();
    let mut member = chromium("a", 1, 0);
    yard.enter(&member).await;
    member.status = WorkerStatus::Draining;
    yard.beat(&member).await;
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { workers: 1, .. }));
    member.status = WorkerStatus::Available;
    yard.beat(&member).await;
    assert_eq!(yard.open().await.1.worker, member.id);
}

pub async fn a_member_that_did_not_answer_is_exchanged_for_another(subject: Subject) {
    let yard = subject.yard();
    let (a, b) = (yard.join("a", 1, 0).await, yard.join("b", 1, 0).await);
    let mut wish = yard.wish();
    let first = yard.get(&wish).await.worker;
    wish.rejected.push(first.clone());
    let second = yard.get(&wish).await.worker;
    assert_ne!(first, second);
    assert_eq!(yard.counts(&first).await.0, 0, "the first was given back");
    assert_eq!(yard.counts(&second).await.0, 1);
    wish.rejected.push(second);
    assert!(matches!(yard.ask(&wish).await, Leased::Refused { .. }), "neither {a} nor {b} answers");
    assert!(yard.fleet().get_session(&wish.session).await.unwrap().is_none());
}

pub async fn many_who_ask_at_once_exceed_no_limit(subject: Subject) {
    let yard = subject.yard();
    for n in 0..5 {
        yard.join(&format!("m{n}"), 3, 4).await;
    }
    let elsewhere = Yard::new(subject.other().await);
    let wishes: Vec<_> = (0..40).map(|_| yard.wish()).collect();
    let asked = wishes.iter().enumerate().map(|(n, wish)| {
        let yard = if n % 2 == 0 { &yard } else { &elsewhere };
        async move { matches!(yard.ask(wish).await, Leased::Granted(_)) }
    });
    let given = join_all(asked).await.into_iter().filter(|given| *given).count();
    assert_eq!(given, 15, "five times three places");
    for n in 0..5 {
        assert_eq!(yard.counts(&format!("chromium:m{n}").parse().unwrap()).await, (3, 3));
    }
}
