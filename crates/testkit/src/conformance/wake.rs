//! What listeners hear. A hint may be lost, so each case gives it again until it is heard.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::name::JobId;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Due, Wake, Wakes};

use super::scene::{LONG, Traits, done, job, until};
use super::{Scene, Subject};

/// Everything that has been said so far.
fn heard(wakes: &mut Wakes) -> Vec<Wake> {
    std::iter::from_fn(|| wakes.next().now_or_never().flatten()).collect()
}

pub async fn the_end_of_a_kept_job_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        for outcome in [done(), Outcome::Cancelled] {
            let mut wakes = subject.other().await.listen();
            let mut ended: Vec<JobId> = Vec::new();
            loop {
                ended.push(scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await);
                scene.settle(&scene.claim_one().await, outcome.clone()).await;
                if listen_a_while(&mut wakes, |wake| matches!(wake, Wake::Finished(job) if ended.contains(job))).await {
                    break;
                }
                assert!(ended.len() < 50, "never heard of {ended:?}");
            }
        }
    }
}

/// Listens for something; soon gives up.
async fn listen_a_while(wakes: &mut Wakes, meant: impl Fn(&Wake) -> bool) -> bool {
    let hear = async {
        while let Some(wake) = wakes.next().await {
            if meant(&wake) {
                return true;
            }
        }
        panic!("wakes never end")
    };
    tokio::time::timeout(Duration::from_millis(200), hear).await.unwrap_or(false)
}

pub async fn the_cancelling_of_a_running_job_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        scene.claim(1).await;
        let mut wakes = scene.store.listen();
        let other = subject.other().await;
        repeat_until_heard(&mut wakes, Wake::Cancel(id.clone()), || async {
            other.cancel(&id).await.unwrap();
        })
        .await;
    }
}

async fn repeat_until_heard<F: Future<Output = ()>>(wakes: &mut Wakes, wake: Wake, act: impl Fn() -> F) {
    for _ in 0..50 {
        act().await;
        if listen_a_while(wakes, |heard| *heard == wake).await {
            return;
        }
    }
    panic!("{wake:?} was never heard");
}

pub async fn a_job_that_is_due_sooner_than_all_others_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let mut wakes = subject.other().await.listen();
        let delay = std::cell::Cell::new(LONG * 100);
        repeat_until_heard(&mut wakes, Wake::Sooner(scene.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            scene.enqueue(Traits { due: Due::In(delay.get()), ..Traits::default() }.job()).await;
        })
        .await;
    }
}

pub async fn a_retry_that_is_due_sooner_than_all_others_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let mut wakes = subject.other().await.listen();
        let delay = std::cell::Cell::new(LONG * 100);
        repeat_until_heard(&mut wakes, Wake::Sooner(scene.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            scene.enqueue(job()).await;
            scene.settle(&scene.claim_one().await, super::scene::retry(delay.get())).await;
        })
        .await;
    }
}

pub async fn a_job_nobody_waits_for_ends_in_silence(subject: Subject) {
    for scene in subject.scenes() {
        let mut wakes = scene.store.listen();
        for _ in 0..5 {
            run_one(&scene).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!heard(&mut wakes).iter().any(|wake| matches!(wake, Wake::Finished(_))));
    }
}

async fn run_one(scene: &Scene) {
    scene.enqueue(job()).await;
    scene.settle(&scene.claim_one().await, done()).await;
}

pub async fn a_handle_waits_for_the_end_elsewhere(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
        let handle = tidemill_core::Mill::new(subject.other().await).handle::<u32>(id);
        let waiting = tokio::spawn(async move { handle.wait().await });
        scene.settle(&scene.claim_one().await, done()).await;
        until("the handle", || async { waiting.is_finished().then_some(()) }).await;
        assert_eq!(waiting.await.unwrap().unwrap(), 42);
    }
}
