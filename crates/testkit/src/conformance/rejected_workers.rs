//! Who waits for another member than those that are free holds up nobody who could use these.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::wake::Wake;
use tidemill_core::store::fleet::{LeaseParams, Leased, WaitParams, MAX_REJECTED_WORKERS};

use super::Subject;
use super::scene::{SHORT, Yard, kind, until};
use super::wake::Ears;

/// A wish that waits, of one that cannot use this member.
fn without(yard: &Yard, member: &WorkerKey) -> LeaseParams {
    LeaseParams { rejected: vec![member.clone()], ..yard.patient_wish() }
}

/// Gives back the member it has: it waits before all others.
async fn give_back(yard: &Yard, wish: &mut LeaseParams, member: &WorkerKey) {
    wish.rejected.push(member.clone());
    assert!(matches!(yard.ask(wish).await, Leased::Waiting { ahead: 0, .. }), "there is no other");
}

/// Gets nothing, whether it waits or not, though others before it are not served.
async fn nothing_for(yard: &Yard, wish: &LeaseParams) {
    assert!(matches!(yard.ask(&yard.wish()).await, Leased::Refused { .. }), "a newcomer gets nothing");
    let answer = yard.ask(wish).await;
    assert!(matches!(answer, Leased::Waiting { ahead: 1.., .. }), "{answer:?}");
}

pub async fn what_the_first_in_line_refuses_is_given_to_the_next(subject: Subject) {
    let (here, there) = (subject.yard(), Yard::new(subject.other().await));
    let a = here.join("a", 1, 0).await;
    let (mut unlucky, next) = (here.patient_wish(), there.patient_wish());
    here.get(&unlucky).await;
    assert!(matches!(there.ask(&next).await, Leased::Waiting { ahead: 0, .. }));
    give_back(&here, &mut unlucky, &a).await;
    assert_eq!(there.get(&next).await.worker, a);
    there.release(&next.session).await;
    assert_eq!(there.open().await.1.worker, a, "nor does a newcomer have to wait");
    assert!(matches!(here.ask(&unlucky).await, Leased::Waiting { ahead: 0, .. }), "it has its place");
}

/// Two members are free. The first in line refuses one, and the other is the one that would be chosen.
async fn one_for_each(yard: &Yard) -> (LeaseParams, WorkerKey, WorkerKey) {
    let mut first = yard.patient_wish();
    let a = yard.join("a", 1, 0).await;
    yard.get(&first).await;
    let b = yard.join("b", 1, 0).await;
    yard.release(&yard.open().await.0).await;
    let (session, grant) = yard.open().await;
    assert_eq!(grant.worker, b);
    give_back(yard, &mut first, &a).await;
    yard.release(&session).await;
    (first, a, b)
}

pub async fn the_next_is_given_what_the_first_refuses_and_nothing_else(subject: Subject) {
    let yard = subject.yard();
    let (first, a, b) = one_for_each(&yard).await;
    assert_eq!(yard.get(&yard.patient_wish()).await.worker, a, "the first can use {b}");
    nothing_for(&yard, &yard.patient_wish()).await;
    assert_eq!(yard.get(&first).await.worker, b);
}

pub async fn the_first_takes_what_it_can_use_and_leaves_the_rest(subject: Subject) {
    let yard = subject.yard();
    let (first, a, b) = one_for_each(&yard).await;
    assert_eq!(yard.get(&first).await.worker, b);
    assert_eq!(yard.get(&yard.patient_wish()).await.worker, a);
}

pub async fn what_one_of_those_before_could_use_is_not_given(subject: Subject) {
    let yard = subject.yard();
    let (a, b) = (yard.join("a", 1, 0).await, yard.join("b", 1, 0).await);
    let holds = [yard.open().await.0, yard.open().await.0];
    let (first, second, third) = (without(&yard, &a), without(&yard, &b), yard.patient_wish());
    for wish in [&first, &second, &third] {
        assert!(matches!(yard.ask(wish).await, Leased::Waiting { .. }));
    }
    for session in &holds {
        yard.release(session).await;
    }
    nothing_for(&yard, &third).await;
    assert_eq!(yard.get(&second).await.worker, a, "the first refuses it");
    nothing_for(&yard, &third).await;
    assert_eq!(yard.get(&first).await.worker, b);
}

pub async fn what_all_who_are_before_refuse_is_found_among_what_only_some_do(subject: Subject) {
    let yard = subject.yard();
    let mut free = Vec::new();
    for name in ["a", "b", "c"] {
        free.push(yard.join(name, 1, 0).await);
    }
    for member in &free {
        let others = free.iter().filter(|other| *other != member).cloned().collect();
        yard.ask(&LeaseParams { rejected: free.clone(), ..yard.patient_wish() }).await;
        let wish = LeaseParams { rejected: others, ..yard.wish() };
        assert_eq!(yard.get(&wish).await.worker, *member);
        yard.release(&wish.session).await;
    }
    let picky = LeaseParams { rejected: vec![free[2].clone(), free[1].clone()], ..yard.patient_wish() };
    let grant = yard.get(&picky).await;
    assert_eq!(grant.worker, free[0], "three are before it that refuse everything");
    yard.release(&picky.session).await;
    let held = yard.get(&LeaseParams { rejected: vec![free[2].clone(), free[1].clone()], ..yard.wish() }).await;
    assert_eq!(held.worker, free[0]);
    assert!(matches!(yard.ask(&picky).await, Leased::Waiting { ahead: 3, .. }));
    let mut given = [yard.open().await.1.worker, yard.open().await.1.worker];
    given.sort();
    assert_eq!(given, [free[1].clone(), free[2].clone()]);
}

pub async fn who_refuses_nothing_still_comes_first(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (mut unlucky, patient, last) = (yard.patient_wish(), yard.patient_wish(), yard.patient_wish());
    yard.get(&unlucky).await;
    yard.ask(&patient).await;
    yard.ask(&last).await;
    give_back(&yard, &mut unlucky, &a).await;
    nothing_for(&yard, &last).await;
    assert_eq!(yard.get(&patient).await.worker, a);
    yard.release(&patient.session).await;
    assert_eq!(yard.get(&last).await.worker, a);
}

pub async fn only_the_latest_refusals_count(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let mut first = without(&yard, &a);
    yard.ask(&first).await;
    let (session, grant) = yard.open().await;
    assert_eq!(grant.worker, a);
    first.rejected.clear();
    assert!(matches!(yard.ask(&first).await, Leased::Waiting { ahead: 0, .. }));
    yard.release(&session).await;
    let next = yard.patient_wish();
    nothing_for(&yard, &next).await;
    first.rejected.push(a.clone());
    assert!(matches!(yard.ask(&first).await, Leased::Waiting { ahead: 0, .. }));
    assert_eq!(yard.get(&next).await.worker, a);
}

pub async fn what_was_refused_is_forgotten_with_the_place_in_line(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let (session, _) = yard.open().await;
    let line = Some(WaitParams { max_waiting: 10, ttl: SHORT });
    let absent = LeaseParams { wait: line, ..without(&yard, &a) };
    assert!(matches!(yard.ask(&absent).await, Leased::Waiting { ahead: 0, .. }));
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    let patient = yard.patient_wish();
    assert!(matches!(yard.ask(&patient).await, Leased::Waiting { ahead: 0, .. }));
    let back = LeaseParams { session: absent.session, ..yard.patient_wish() };
    assert!(matches!(yard.ask(&back).await, Leased::Waiting { ahead: 1, .. }), "at the end of the line");
    yard.release(&session).await;
    yard.get(&patient).await;
    yard.release(&patient.session).await;
    nothing_for(&yard, &yard.patient_wish()).await;
    assert_eq!(yard.get(&back).await.worker, a);
}

pub async fn refusals_leave_nothing_behind(subject: Subject) {
    let yard = subject.yard();
    let gone: WorkerKey = "chromium:gone".parse().unwrap();
    let (given_up, served) = (without(&yard, &gone), without(&yard, &gone));
    yard.ask(&LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..without(&yard, &gone) }).await;
    yard.ask(&given_up).await;
    yard.ask(&served).await;
    assert!(yard.release(&given_up.session).await);
    tokio::time::sleep(SHORT + Duration::from_millis(20)).await;
    yard.reap().await;
    let a = yard.join("a", 1, 0).await;
    yard.get(&served).await;
    yard.release(&served.session).await;
    yard.fleet().part(&[a]).await.unwrap();
    let left = subject.left_behind().await;
    assert!(left.is_empty(), "{left:?}");
}

pub async fn who_may_have_what_was_given_back_hears_of_it(subject: Subject) {
    let yard = subject.yard();
    let a = yard.join("a", 1, 0).await;
    let wish = || LeaseParams { wait: Some(WaitParams { max_waiting: 10, ttl: SHORT }), ..yard.wish() };
    let mut ears = Ears::open(&subject).await;
    ears.hear(|wake| *wake == Wake::Capacity(kind("chromium")), || async {
        // Whoever gave up its place would have the others called; one that runs out is not noticed by anybody.
        until("an empty line", || async { yard.fleet().list_waiting().await.unwrap().is_empty().then_some(()) }).await;
        let (mut unlucky, next) = (wish(), wish());
        yard.get(&unlucky).await;
        yard.ask(&next).await;
        give_back(&yard, &mut unlucky, &a).await;
    })
    .await;
}

pub async fn nobody_refuses_more_than_a_few(subject: Subject) {
    let yard = subject.yard();
    let members = |most| (0..most).map(|n| format!("chromium:{n}").parse().unwrap()).collect();
    let picky = LeaseParams { rejected: members(MAX_REJECTED_WORKERS), ..yard.patient_wish() };
    assert!(matches!(yard.ask(&picky).await, Leased::Waiting { .. }));
    let too_picky = LeaseParams { rejected: members(MAX_REJECTED_WORKERS + 1), ..yard.patient_wish() };
    assert!(matches!(yard.fleet().lease(&too_picky).await, Err(Error::Invalid(_))));
}
