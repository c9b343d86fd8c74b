//! What listeners hear. A hint may be lost, so each case gives it again until it is heard. Another process may
//! learn only that there is something to look at.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::Client;
use tidemill_core::name::{JobId, HolderId};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Completed, Deleted, Due, Store};
use tidemill_core::wake::{Wake, WakeStream};

use super::scene::{LONG, SHORT, Traits, dead, done, job, retry, until};
use super::{Scene, Subject};

/// A listener in this process, which must be told precisely, and one elsewhere.
pub(super) struct Ears {
    here: WakeStream,
    elsewhere: WakeStream,
    // Listening does not keep a connection open.
    _other: Arc<dyn Store>,
}

impl Ears {
    pub(super) async fn open(subject: &Subject) -> Self {
        let other = subject.other().await;
        Self { here: subject.store.subscribe(), elsewhere: other.subscribe(), _other: other }
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
    wakes: &mut WakeStream,
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

/// How a job that somebody waits for ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Dies,
    IsCancelled,
    IsCancelledBeforeItsTime,
    IsCancelledWhileItFails,
    IsDeleted,
    IsPurged,
    IsCompleted,
    IsLostWithItsWorker,
}

impl End {
    const ALL: [Self; 8] = [
        Self::Dies,
        Self::IsCancelled,
        Self::IsCancelledBeforeItsTime,
        Self::IsCancelledWhileItFails,
        Self::IsDeleted,
        Self::IsPurged,
        Self::IsCompleted,
        Self::IsLostWithItsWorker,
    ];

    /// Makes a job and lets it end like this.
    async fn happen(self, scene: &Scene) -> JobId {
        let scene = match self {
            // A worker of its own: on Redis a worker's leases are all of one length.
            Self::IsLostWithItsWorker => {
                Scene { lease: SHORT, worker: HolderId::from_process("dying", 3, 0), ..scene.clone() }
            }
            _ => scene.clone(),
        };
        let due = if matches!(self, Self::IsCancelledBeforeItsTime) { Due::In(LONG) } else { Due::Now };
        let id = scene.enqueue(Traits { keep: Some(LONG), max_attempts: 1, due, ..Traits::default() }.job()).await;
        match self {
            Self::Dies => scene.settle(&scene.claim_one().await, dead("bad")).await,
            Self::IsCancelled | Self::IsCancelledBeforeItsTime => {
                assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Removed);
            }
            Self::IsCancelledWhileItFails => {
                let claimed = scene.claim_one().await;
                assert_eq!(scene.store.cancel(&id).await.unwrap(), Cancelled::Requested);
                scene.settle(&claimed, Outcome::HandedBack).await;
            }
            Self::IsDeleted => assert_eq!(scene.delete(&id).await, Deleted::Yes),
            Self::IsPurged => assert_eq!(scene.store.purge(&scene.queue).await.unwrap(), 1),
            Self::IsCompleted => assert_eq!(scene.complete(&id, done()).await, Completed::Yes),
            Self::IsLostWithItsWorker => {
                scene.claim_one().await;
                scene.expire_and_rescue(1).await;
            }
        }
        id
    }
}

pub async fn whoever_waits_for_a_job_is_woken_however_it_ends(subject: Subject) {
    for scene in subject.scenes() {
        let mut wakes = scene.store.subscribe();
        // From here on it listens, and what is said about nothing in particular was said before.
        repeat_until_heard(&mut wakes, |wake| matches!(wake, Wake::Finished(_)), || async {
            End::IsCancelled.happen(&scene).await;
        })
        .await;
        while wakes.next().now_or_never().is_some() {}
        for end in End::ALL {
            let id = end.happen(&scene).await;
            let told = |wake: &Wake| *wake == Wake::Finished(id.clone()) || is_purge(end, wake);
            let heard = async { while !told(&wakes.next().await.expect("wakes never end")) {} };
            let heard = tokio::time::timeout(LONG, heard).await;
            assert!(heard.is_ok(), "nobody was told of a job on {} that {end:?}", scene.queue);
        }
    }
}

/// A purge may say of many at once that they have ended.
fn is_purge(end: End, wake: &Wake) -> bool {
    matches!(end, End::IsPurged) && *wake == Wake::Everything
}

pub async fn a_worker_that_loses_a_job_to_a_rescuer_is_told(subject: Subject) {
    for scene in subject.scenes() {
        let scene = scene.leasing(SHORT);
        let lost = RefCell::new(Vec::new());
        let mut ears = Ears::open(&subject).await;
        ears.hear(|wake| matches!(wake, Wake::LeaseLost(job) if lost.borrow().contains(job)), || async {
            let id = scene.enqueue(job()).await;
            lost.borrow_mut().push(id);
            scene.claim_one().await;
            scene.expire_and_rescue(1).await;
            // Back in its queue, if it comes back.
            scene.store.purge(&scene.queue).await.unwrap();
        })
        .await;
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
        ears.hear(|wake| *wake == Wake::DueEarlier(scene.queue.clone()), || async {
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
        ears.hear(|wake| *wake == Wake::DueEarlier(scene.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            scene.enqueue(job()).await;
            scene.settle(&scene.claim_one().await, retry(delay.get())).await;
        })
        .await;
    }
}

pub async fn a_job_nobody_waits_for_ends_in_silence(subject: Subject) {
    for scene in subject.scenes() {
        let mut wakes = scene.store.subscribe();
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
        let handle = Client::new(subject.other().await).handle::<u32>(id);
        let waiting = tokio::spawn(async move { handle.wait().await });
        scene.settle(&scene.claim_one().await, done()).await;
        until("the handle", || async { waiting.is_finished().then_some(()) }).await;
        assert_eq!(waiting.await.unwrap().unwrap(), 42);
    }
}
