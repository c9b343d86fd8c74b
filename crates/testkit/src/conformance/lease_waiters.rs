//! Who waits for a member is served in turn.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::store::fleet::{LeaseParams, Leased, WaitParams, WaitingInfo, WorkerEntry, WorkerStatus};
use tidemill_core::wake::Wake;

use super::scene::{LONG, SHORT, Yard, chromium, kind, offer, until};
use super::wake::Ears;
use super::Subject;

pub async fn whoever_waits_is_served_first_in_first_out_across_gateways(subject: Subject) {
    let (here, there) = (subject.yard(), Yard::new(subject.other().await));
    here.join("a", 1, 0).await;
    let (session, _) = here.open().await;
    let (first, second, third) = (here.patient_wish(), there.patient_wish(), here.patient_wish());
    assert_eq!(here.ask(&first).await, Leased::Waiting { ahead: 0, workers: 1 });
    assert_eq!(there.ask(&second).await, Leased::Waiting { ahead: 1, workers: 1 });
    assert_eq!(here.ask(&third).await, Leased::Waiting { ahead: 2, workers: 1 });
    assert_eq!(here.ask(&first).await, Leased::Waiting { ahead: 0, workers: 1 }, "asking again moves nobody");
    here.release(&session).await;
    assert!(matches!(there.ask(&second).await, Leased::Waiting { ahead: 1, .. }), "it is not its turn");
    here.get(&first).await;
    assert!(matches!(here.ask(&third).await, Leased::Waiting { ahead: 1, .. }));
    here.release(&first.session).await;
    there.get(&second).await;
    there.release(&second.session).await;
    here.get(&third).await;
}

pub async fn a_newcomer_does_not_pass_by_those_who_wait(subject: Subject) {
    let yard = subject.yard();
    yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let waiting = yard.patient_wish();
    yard.ask(&waiting).await;
    yard.release(&session).await;
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { waiting: 1, .. }));
    assert!(matches!(yard.ask(&yard.patient_wish()).await, Leased::Waiting { ahead: 1, .. }));
    yard.get(&waiting).await;
}

pub async fn who_gives_back_a_member_that_did_not_answer_stands_behind_nobody(subject: Subject) {
    let yard = subject.yard();
    yard.join("dead", 1, 0).await;
    let mut unlucky = LeaseParams { wait: Some(WaitParams { max_waiting: 1, ttl: LONG }), ..yard.wish() };
    let dead = yard.get(&unlucky).await.worker;
    let other = yard.patient_wish();
    assert!(matches!(yard.ask(&other).await, Leased::Waiting { ahead: 0, .. }));
    unlucky.rejected.push(dead);
    assert!(matches!(yard.ask(&unlucky).await, Leased::Waiting { ahead: 0, .. }), "also where the line is full");
    let later = LeaseParams { rejected: unlucky.rejected.clone(), ..other.clone() };
    assert!(matches!(yard.ask(&later).await, Leased::Waiting { ahead: 1, .. }));
    yard.join("alive", 1, 0).await;
    assert!(matches!(yard.ask(&later).await, Leased::Waiting { ahead: 1, .. }));
    yard.get(&unlucky).await;
}

pub async fn a_full_line_takes_nobody(subject: Subject) {
    let yard = subject.yard();
    let short = || LeaseParams { wait: Some(WaitParams { max_waiting: 2, ttl: LONG }), ..yard.wish() };
    assert!(matches!(yard.ask(&short()).await, Leased::Waiting { ahead: 0, workers: 0 }));
    let second = short();
    assert!(matches!(yard.ask(&second).await, Leased::Waiting { ahead: 1, .. }));
    assert_eq!(yard.ask(&short()).await, Leased::Refused { waiting: 2, workers: 0 });
    assert!(matches!(yard.ask(&second).await, Leased::Waiting { .. }), "it has its place");
}

pub async fn a_member_of_one_session_counts_as_a_worker_until_it_leaves(subject: Subject) {
    let yard = subject.yard();
    let member = chromium("a", 1, 1);
    yard.enter(&member).await;
    let (session, _) = yard.open().await;
    yard.beat(&WorkerEntry { status: WorkerStatus::Draining, ..member.clone() }).await;
    let first = LeaseParams { wait: Some(WaitParams { max_waiting: 1, ttl: LONG }), ..yard.wish() };
    assert_eq!(yard.ask(&first).await, Leased::Waiting { ahead: 0, workers: 1 });
    let second = LeaseParams { wait: first.wait, ..yard.wish() };
    assert_eq!(yard.ask(&second).await, Leased::Refused { waiting: 1, workers: 1 });
    assert!(yard.release(&session).await);
    assert_eq!(yard.ask(&first).await, Leased::Waiting { ahead: 0, workers: 1 }, "it is being replaced");
    yard.fleet().part(&[member.id]).await.unwrap();
    assert_eq!(yard.ask(&first).await, Leased::Waiting { ahead: 0, workers: 0 });
    yard.join("b", 1, 1).await;
    yard.get(&first).await;
}

pub async fn lines_for_different_things_do_not_meet(subject: Subject) {
    let yard = subject.yard();
    yard.join("a", 1, 0).await;
    let other = LeaseParams { offers: vec![offer("playwright-1.64")], ..yard.patient_wish() };
    let foreign = LeaseParams { kind: kind("firefox"), ..yard.patient_wish() };
    yard.ask(&other).await;
    yard.ask(&foreign).await;
    yard.open().await;
    yard.ask(&yard.patient_wish()).await;
    let mut lines = yard.fleet().list_waiting().await.unwrap();
    lines.sort_by_key(|line| (line.kind.clone(), line.offer.clone()));
    let line = |of: &str, offered: &str| WaitingInfo { kind: kind(of), offer: offer(offered), waiting: 1 };
    assert_eq!(lines, [line("chromium", "cdp"), line("chromium", "playwright-1.64"), line("firefox", "cdp")]);
}

pub async fn who_gives_up_makes_way(subject: Subject) {
    let yard = subject.yard();
    let (first, second) = (yard.patient_wish(), yard.patient_wish());
    yard.ask(&first).await;
    yard.ask(&second).await;
    assert!(yard.release(&first.session).await);
    assert!(!yard.release(&first.session).await);
    yard.join("a", 1, 0).await;
    yard.get(&second).await;
    assert!(yard.fleet().list_waiting().await.unwrap().is_empty());
}

pub async fn who_does_not_ask_again_loses_its_place(subject: Subject) {
    let yard = subject.yard();
    let gone = LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..yard.wish() };
    yard.ask(&gone).await;
    let waiting = yard.patient_wish();
    assert!(matches!(yard.ask(&waiting).await, Leased::Waiting { ahead: 1, .. }));
    yard.join("a", 1, 0).await;
    until("its turn", || async { matches!(yard.ask(&waiting).await, Leased::Granted(_)).then_some(()) }).await;
}

pub async fn places_that_nobody_asked_for_are_reaped(subject: Subject) {
    let yard = subject.yard();
    yard.ask(&LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..yard.wish() }).await;
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    yard.reap().await;
    assert!(yard.fleet().list_waiting().await.unwrap().is_empty());
    let left = subject.left_behind().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn whoever_waits_hears_of_a_session_that_ends(subject: Subject) {
    let yard = subject.yard();
    yard.join("a", 1, 0).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        let (session, _) = yard.open().await;
        let waiting = yard.patient_wish();
        yard.ask(&waiting).await;
        yard.release(&session).await;
        yard.release(&waiting.session).await;
    })
    .await;
}

pub async fn whoever_waits_hears_of_a_member_that_joins(subject: Subject) {
    let yard = subject.yard();
    let waiting = yard.patient_wish();
    yard.ask(&waiting).await;
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        yard.enter(&chromium("a", 1, 0)).await;
    })
    .await;
    yard.get(&waiting).await;
}

pub async fn the_next_hears_when_the_first_was_served(subject: Subject) {
    let yard = subject.yard();
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        let (first, second) = (yard.patient_wish(), yard.patient_wish());
        yard.ask(&first).await;
        yard.ask(&second).await;
        yard.join("a", 2, 0).await;
        yard.get(&first).await;
        yard.release(&first.session).await;
        yard.release(&second.session).await;
    })
    .await;
}

pub async fn a_crowd_is_served_to_the_last(subject: Subject) {
    let (here, there) = (subject.yard(), Yard::new(subject.other().await));
    here.join("a", 2, 0).await;
    here.join("b", 1, 0).await;
    let served = (0..30).map(|n| {
        let yard = if n % 2 == 0 { here.clone() } else { there.clone() };
        async move {
            let wish = yard.patient_wish();
            let grant = until("its turn", || async {
                match yard.ask(&wish).await {
                    Leased::Granted(grant) => Some(grant),
                    _ => None,
                }
            })
            .await;
            let most = if grant.worker.name.as_str() == "a" { 2 } else { 1 };
            assert!(yard.counts(&grant.worker).await.0 <= most);
            assert!(yard.release(&wish.session).await);
        }
    });
    join_all(served).await;
    assert!(here.sessions(None).await.is_empty());
    assert!(here.fleet().list_waiting().await.unwrap().is_empty());
}
