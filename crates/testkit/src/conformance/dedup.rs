//! Chains that are started once.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::chain::Dedup;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead};
use tidemill_core::store::NewJob;

use super::StoreUnderTest;
use super::cleanup::assert_nothing_is_left;
use super::harness::{LONG, JobSpec, chain_once, dead, done, continue_with, next, until};

pub async fn an_open_chain_takes_the_place_of_another_with_its_key(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (created, id) = harness.start_once(Dedup::open("a key: 1/2 ü")).await;
    assert!(created);
    let other = harness.with_store(subject.other_connection().await);
    assert_eq!(other.start_once(Dedup::open("a key: 1/2 ü")).await, (false, id.clone()));
    assert!(other.start_once(Dedup::open("another")).await.0);
    harness.settle(&harness.claim_chain(&id).await, continue_with(next("b"))).await;
    assert_eq!(other.start_once(Dedup::open("a key: 1/2 ü")).await, (false, id.clone()));
    let running = harness.claim_chain(&id).await;
    assert_eq!(other.start_once(Dedup::any("a key: 1/2 ü")).await, (false, id.clone()));
    harness.settle(&running, done()).await;
    assert!(other.start_once(Dedup::open("a key: 1/2 ü")).await.0, "a closed chain is not open");
}

pub async fn a_closed_chain_counts_where_any_does(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (_, id) = harness.start_once(Dedup::any("k")).await;
    harness.settle(&harness.claim_one().await, done()).await;
    assert_eq!(harness.start_once(Dedup::any("k")).await, (false, id.clone()));
    let (created, second) = harness.start_once(Dedup::open("k")).await;
    assert!(created);
    assert_eq!(harness.start_once(Dedup::any("k")).await, (false, second), "the latest one counts");
}

pub async fn only_a_chain_within_the_window_counts(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (_, id) = harness.start_once(Dedup::open("k")).await;
    assert_eq!(harness.start_once(Dedup::open("k").within(LONG)).await, (false, id.clone()));
    let second = until("the window to close", || async {
        let (created, id) = harness.start_once(Dedup::any("k").within(Duration::from_millis(100))).await;
        created.then_some(id)
    })
    .await;
    assert_ne!(second, id);
    assert_eq!(harness.start_once(Dedup::open("k")).await, (false, second));
    harness.assert_counts([2, 0, 0, 0]).await;
}

pub async fn a_dead_chain_is_still_open(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (_, id) = harness.start_once(Dedup::open("k")).await;
    harness.settle(&harness.claim_one().await, dead("bad")).await;
    assert_eq!(harness.start_once(Dedup::open("k")).await, (false, id));
    drop_dead(&*harness.store, &harness.queue, &DeadLetterFilter::default()).await.unwrap();
    assert!(harness.start_once(Dedup::open("k")).await.0);
}

pub async fn a_key_is_free_when_its_chain_is_gone(subject: StoreUnderTest) {
    let harness = subject.harness();
    let (_, id) = harness.start_once(Dedup::any("k")).await;
    harness.store.cancel(&id).await.unwrap();
    let (created, id) = harness.start_once(Dedup::any("k")).await;
    assert!(created);
    harness.delete(&id).await;
    assert!(harness.start_once(Dedup::any("k")).await.0);
    harness.store.purge(&harness.queue).await.unwrap();
    assert!(harness.start_once(Dedup::any("k")).await.0);
}

pub async fn one_key_started_by_many_is_one_chain(subject: StoreUnderTest) {
    const KEYS: usize = 50;
    let harness = subject.harness();
    let everywhere = [harness.clone(), harness.with_store(subject.other_connection().await)];
    let tasks = (0..4 * KEYS).map(|index| {
        let (harness, key) = (everywhere[index % 2].clone(), format!("key {}", index / 4));
        tokio::spawn(async move { harness.start_once(Dedup::open(key)).await })
    });
    let answers: Vec<_> =
        join_all(tasks.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    for answers in answers.chunks(4) {
        assert_eq!(answers.iter().filter(|(created, _)| *created).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|(_, id)| *id == answers[0].1), "{answers:?}");
    }
    assert_eq!(harness.claim(KEYS).await.len(), KEYS);
    harness.claim_nothing().await;
}

pub async fn keys_leave_nothing(subject: StoreUnderTest) {
    let harness = subject.harness();
    let brief = JobSpec { keep: Some(Duration::from_millis(50)), ..JobSpec::default() };
    for key in ["a", "b"] {
        let links = chain_once(Dedup::any(key)).links;
        harness.enqueue(NewJob { links, generated_id: true, ..brief.job() }).await;
    }
    harness.settle(&harness.claim_one().await, done()).await;
    let second = harness.claim_one().await;
    harness.store.cancel(&second.lease.job).await.unwrap();
    harness.settle(&second, super::harness::retry(Duration::ZERO)).await;
    assert_nothing_is_left(&subject, &harness).await;
}
