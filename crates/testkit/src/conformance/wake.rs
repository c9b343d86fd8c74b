//! What listeners hear. A hint may be lost, so each case gives it again until it is heard. Another process may
//! learn only that there is something to look at.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::Mill;
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Due, Store, Wake, Wakes};

use super::scene::{LONG, Traits, done, job, retry, until};
use super::{Scene, Subject};

/// A listener in this process, which must be told precisely, and one elsewhere.
pub(super) struct Ears {
    here: Wakes,
    elsewhere: Wakes,
    // Listening does not keep a connection open.
    _other: Arc<dyn Store>,
}

impl Ears {
    pub(super) async fn open(subject: &Subject) -> Self {
        let other = subject.other().await;
        Self { here: subject.store.listen(), elsewhere: other.listen(), _other: other }
    }

    /// Repeats `act` until both have heard what it is to announce.
    pub(super) async fn hear<F: Future<Output = ()>>(&mut self, meant: impl Fn(&Wake) -> bool, act: impl Fn() -> F) {
        repeat_until_heard(&mut self.here, &meant, &act).await;
        // What was said when it connected is about nothing in particular.
        while self.elsewhere.next().now_or_never().is_some() {}
        repeat_until_heard(&mut self.elsewhere, |wake| meant(wake) || *wake == Wake::Everything, &act).await;
    }
}

async fn repeat_until_heard<F: Future<Output = ()>>(
    wakes: &mut Wakes,
    meant: impl Fn(&Wake) -> bool,
    act: impl Fn() -> F,
) {
    for _ in 0..50 {
        act().await;
        let heard = async { while !meant(&wakes.next().await.expect("wakes never end")) {} };
        if tokio::time::timeout(Duration::from_millis(200), heard).await.is_ok() {
            return;
        }
    }
    panic!("nothing was heard");
}

pub async fn the_end_of_a_kept_job_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        for outcome in [done(), Outcome::Cancelled] {
            let ended = RefCell::new(Vec::new());
            let meant = |wake: &Wake| matches!(wake, Wake::Finished(job) if ended.borrow().contains(job));
            let mut ears = Ears::open(&subject).await;
            ears.hear(meant, || async {
                let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
                ended.borrow_mut().push(id);
                scene.settle(&scene.claim_one().await, outcome.clone()).await;
            })
            .await;
        }
    }
}

pub async fn the_cancelling_of_a_running_job_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(job()).await;
        scene.claim(1).await;
        let mut ears = Ears::open(&subject).await;
        ears.hear(|wake| *wake == Wake::Cancel(id.clone()), || async {
            scene.store.cancel(&id).await.unwrap();
        })
        .await;
    }
}

pub async fn a_job_that_is_due_sooner_than_all_others_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let delay = Cell::new(LONG * 200);
        let mut ears = Ears::open(&subject).await;
        ears.hear(|wake| *wake == Wake::Sooner(scene.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            scene.enqueue(Traits { due: Due::In(delay.get()), ..Traits::default() }.job()).await;
        })
        .await;
    }
}

pub async fn a_retry_that_is_due_sooner_than_all_others_is_announced(subject: Subject) {
    for scene in subject.scenes() {
        let delay = Cell::new(LONG * 200);
        let mut ears = Ears::open(&subject).await;
        ears.hear(|wake| *wake == Wake::Sooner(scene.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            scene.enqueue(job()).await;
            scene.settle(&scene.claim_one().await, retry(delay.get())).await;
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
        let heard: Vec<_> = std::iter::from_fn(|| wakes.next().now_or_never().flatten()).collect();
        assert!(!heard.iter().any(|wake| matches!(wake, Wake::Finished(_))), "{heard:?}");
    }
}

async fn run_one(scene: &Scene) {
    scene.enqueue(job()).await;
    scene.settle(&scene.claim_one().await, done()).await;
}

pub async fn a_handle_waits_for_the_end_elsewhere(subject: Subject) {
    for scene in subject.scenes() {
        let id = scene.enqueue(Traits { keep: Some(LONG), ..Traits::default() }.job()).await;
        let handle = Mill::new(subject.other().await).handle::<u32>(id);
        let waiting = tokio::spawn(async move { handle.wait().await });
        scene.settle(&scene.claim_one().await, done()).await;
        until("the handle", || async { waiting.is_finished().then_some(()) }).await;
        assert_eq!(waiting.await.unwrap().unwrap(), 42);
    }
}
