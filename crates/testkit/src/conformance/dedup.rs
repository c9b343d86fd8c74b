//! Chains that are started once.

use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::chain::Dedup;
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead};
use tidemill_core::store::NewJob;

use super::Subject;
use super::hygiene::assert_nothing_is_left;
use super::scene::{LONG, Traits, chain_once, dead, done, go_on, next, until};

pub async fn an_open_chain_takes_the_place_of_another_with_its_key(subject: Subject) {
    let scene = subject.scene();
    let (created, id) = scene.start_once(Dedup::open("a key: 1/2 ü")).await;
    assert!(created);
    let other = scene.through(subject.other().await);
    assert_eq!(other.start_once(Dedup::open("a key: 1/2 ü")).await, (false, id.clone()));
    assert!(other.start_once(Dedup::open("another")).await.0);
    scene.settle(&scene.claim_chain(&id).await, go_on(next("b"))).await;
    assert_eq!(other.start_once(Dedup::open("a key: 1/2 ü")).await, (false, id.clone()));
    let running = scene.claim_chain(&id).await;
    assert_eq!(other.start_once(Dedup::any("a key: 1/2 ü")).await, (false, id.clone()));
    scene.settle(&running, done()).await;
    assert!(other.start_once(Dedup::open("a key: 1/2 ü")).await.0, "a closed chain is not open");
}

pub async fn a_closed_chain_counts_where_any_does(subject: Subject) {
    let scene = subject.scene();
    let (_, id) = scene.start_once(Dedup::any("k")).await;
    scene.settle(&scene.claim_one().await, done()).await;
    assert_eq!(scene.start_once(Dedup::any("k")).await, (false, id.clone()));
    let (created, second) = scene.start_once(Dedup::open("k")).await;
    assert!(created);
    assert_eq!(scene.start_once(Dedup::any("k")).await, (false, second), "the latest one counts");
}

pub async fn only_a_chain_within_the_window_counts(subject: Subject) {
    let scene = subject.scene();
    let (_, id) = scene.start_once(Dedup::open("k")).await;
    assert_eq!(scene.start_once(Dedup::open("k").within(LONG)).await, (false, id.clone()));
    let second = until("the window to close", || async {
        let (created, id) = scene.start_once(Dedup::any("k").within(Duration::from_millis(100))).await;
        created.then_some(id)
    })
    .await;
    assert_ne!(second, id);
    assert_eq!(scene.start_once(Dedup::open("k")).await, (false, second));
    scene.assert_counts([2, 0, 0, 0]).await;
}

pub async fn a_dead_chain_is_still_open(subject: Subject) {
    let scene = subject.scene();
    let (_, id) = scene.start_once(Dedup::open("k")).await;
    scene.settle(&scene.claim_one().await, dead("bad")).await;
    assert_eq!(scene.start_once(Dedup::open("k")).await, (false, id));
    drop_dead(&*scene.store, &scene.queue, &DeadLetterFilter::default()).await.unwrap();
    assert!(scene.start_once(Dedup::open("k")).await.0);
}

pub async fn a_key_is_free_when_its_chain_is_gone(subject: Subject) {
    let scene = subject.scene();
    let (_, id) = scene.start_once(Dedup::any("k")).await;
    scene.store.cancel(&id).await.unwrap();
    let (created, id) = scene.start_once(Dedup::any("k")).await;
    assert!(created);
    scene.delete(&id).await;
    assert!(scene.start_once(Dedup::any("k")).await.0);
    scene.store.purge(&scene.queue).await.unwrap();
    assert!(scene.start_once(Dedup::any("k")).await.0);
}

pub async fn one_key_started_by_many_is_one_chain(subject: Subject) {
    const KEYS: usize = 50;
    let scene = subject.scene();
    let everywhere = [scene.clone(), scene.through(subject.other().await)];
    let tasks = (0..4 * KEYS).map(|index| {
        let (scene, key) = (everywhere[index % 2].clone(), format!("key {}", index / 4));
        tokio::spawn(async move { scene.start_once(Dedup::open(key)).await })
    });
    let answers: Vec<_> =
        join_all(tasks.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    for answers in answers.chunks(4) {
        assert_eq!(answers.iter().filter(|(created, _)| *created).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|(_, id)| *id == answers[0].1), "{answers:?}");
    }
    assert_eq!(scene.claim(KEYS).await.len(), KEYS);
    scene.claim_nothing().await;
}

pub async fn keys_leave_nothing(subject: Subject) {
    let scene = subject.scene();
    let brief = Traits { keep: Some(Duration::from_millis(50)), ..Traits::default() };
    for key in ["a", "b"] {
        let links = chain_once(Dedup::any(key)).links;
        scene.enqueue(NewJob { links, generated_id: true, ..brief.job() }).await;
    }
    scene.settle(&scene.claim_one().await, done()).await;
    let second = scene.claim_one().await;
    scene.store.cancel(&second.lease.job).await.unwrap();
    scene.settle(&second, super::scene::retry(Duration::ZERO)).await;
    assert_nothing_is_left(&subject, &scene).await;
}
