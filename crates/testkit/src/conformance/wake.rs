//! Wake-ups. They may be lost, so each case repeats its action until the wake-up is received.
//! Another process may receive only `Everything`.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tidemill_core::Client;
use tidemill_core::name::{JobId, HolderId};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Cancelled, Completed, Deleted, Due, Store};
use tidemill_core::wake::{Wake, WakeStream};

use super::harness::{LONG, SHORT, JobSpec, dead, done, job, retry, until};
use super::{QueueHarness, StoreUnderTest};

/// A subscription in this process, which receives the exact wake-up, and one of another connection.
pub(super) struct WakeListeners {
    local: WakeStream,
    other: WakeStream,
    // A subscription does not keep a connection open.
    _other: Arc<dyn Store>,
}

impl WakeListeners {
    pub(super) async fn open(subject: &StoreUnderTest) -> Self {
        let other = subject.other_connection().await;
        Self { local: subject.store.subscribe(), other: other.subscribe(), _other: other }
    }

    /// Repeats `act` until both have received the expected wake-up.
    pub(super) async fn expect_wake<F: Future<Output = ()>>(&mut self, is_expected: impl Fn(&Wake) -> bool, act: impl Fn() -> F) {
        repeat_until_received(&mut self.local, &is_expected, &act).await;
        // Skips the unspecific wake-ups of the connect.
        while self.other.next().now_or_never().is_some() {}
        repeat_until_received(&mut self.other, |wake| is_expected(wake) || *wake == Wake::Everything, &act).await;
    }
}

async fn repeat_until_received<F: Future<Output = ()>>(
    wakes: &mut WakeStream,
    is_expected: impl Fn(&Wake) -> bool,
    act: impl Fn() -> F,
) {
    for _ in 0..50 {
        act().await;
        let received = async { while !is_expected(&wakes.next().await.expect("wakes never end")) {} };
        if tokio::time::timeout(Duration::from_millis(200), received).await.is_ok() {
            return;
        }
    }
    panic!("nothing was received");
}

pub async fn the_end_of_a_kept_job_is_announced(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        for outcome in [done(), Outcome::Cancelled] {
            let ended = RefCell::new(Vec::new());
            let is_expected = |wake: &Wake| matches!(wake, Wake::Finished(job) if ended.borrow().contains(job));
            let mut listeners = WakeListeners::open(&subject).await;
            listeners.expect_wake(is_expected, || async {
                let id = harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
                ended.borrow_mut().push(id);
                harness.settle(&harness.claim_one().await, outcome.clone()).await;
            })
            .await;
        }
    }
}

/// How an awaited job ends.
#[derive(Debug, Clone, Copy)]
enum JobEnding {
    Dies,
    IsCancelled,
    IsCancelledBeforeItsTime,
    IsCancelledWhileItFails,
    IsDeleted,
    IsPurged,
    IsCompleted,
    IsLostWithItsWorker,
}

impl JobEnding {
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

    /// Creates a job and lets it end like this.
    async fn happen(self, harness: &QueueHarness) -> JobId {
        let harness = match self {
            // With a worker of its own: on Redis all leases of a worker have the same length.
            Self::IsLostWithItsWorker => {
                QueueHarness { lease: SHORT, worker: HolderId::from_process("dying", 3, 0), ..harness.clone() }
            }
            _ => harness.clone(),
        };
        let due = if matches!(self, Self::IsCancelledBeforeItsTime) { Due::In(LONG) } else { Due::Now };
        let id = harness.enqueue(JobSpec { keep: Some(LONG), max_attempts: 1, due, ..JobSpec::default() }.job()).await;
        match self {
            Self::Dies => harness.settle(&harness.claim_one().await, dead("bad")).await,
            Self::IsCancelled | Self::IsCancelledBeforeItsTime => {
                assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Removed);
            }
            Self::IsCancelledWhileItFails => {
                let claimed = harness.claim_one().await;
                assert_eq!(harness.store.cancel(&id).await.unwrap(), Cancelled::Requested);
                harness.settle(&claimed, Outcome::HandedBack).await;
            }
            Self::IsDeleted => assert_eq!(harness.delete(&id).await, Deleted::Yes),
            Self::IsPurged => assert_eq!(harness.store.purge(&harness.queue).await.unwrap(), 1),
            Self::IsCompleted => assert_eq!(harness.complete(&id, done()).await, Completed::Yes),
            Self::IsLostWithItsWorker => {
                harness.claim_one().await;
                harness.expire_and_rescue(1).await;
            }
        }
        id
    }
}

pub async fn whoever_waits_for_a_job_is_woken_however_it_ends(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut wakes = harness.store.subscribe();
        // The subscription is active from here on, and unspecific wake-ups were sent before.
        repeat_until_received(&mut wakes, |wake| matches!(wake, Wake::Finished(_)), || async {
            JobEnding::IsCancelled.happen(&harness).await;
        })
        .await;
        while wakes.next().now_or_never().is_some() {}
        for end in JobEnding::ALL {
            let id = end.happen(&harness).await;
            let told = |wake: &Wake| *wake == Wake::Finished(id.clone()) || is_purge(end, wake);
            let received = async { while !told(&wakes.next().await.expect("wakes never end")) {} };
            let received = tokio::time::timeout(LONG, received).await;
            assert!(received.is_ok(), "nobody was told of a job on {} that {end:?}", harness.queue);
        }
    }
}

/// A purge may announce the end of many jobs at once.
fn is_purge(end: JobEnding, wake: &Wake) -> bool {
    matches!(end, JobEnding::IsPurged) && *wake == Wake::Everything
}

pub async fn a_worker_that_loses_a_job_to_a_rescuer_is_told(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let harness = harness.with_lease(SHORT);
        let lost = RefCell::new(Vec::new());
        let mut listeners = WakeListeners::open(&subject).await;
        listeners.expect_wake(|wake| matches!(wake, Wake::LeaseLost(job) if lost.borrow().contains(job)), || async {
            let id = harness.enqueue(job()).await;
            lost.borrow_mut().push(id);
            harness.claim_one().await;
            harness.expire_and_rescue(1).await;
            // The job is back in its queue, if it comes back.
            harness.store.purge(&harness.queue).await.unwrap();
        })
        .await;
    }
}

pub async fn the_cancelling_of_a_running_job_is_announced(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(job()).await;
        harness.claim(1).await;
        let mut listeners = WakeListeners::open(&subject).await;
        listeners.expect_wake(|wake| *wake == Wake::Cancel(id.clone()), || async {
            harness.store.cancel(&id).await.unwrap();
        })
        .await;
    }
}

pub async fn a_job_that_is_due_sooner_than_all_others_is_announced(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let delay = Cell::new(LONG * 200);
        let mut listeners = WakeListeners::open(&subject).await;
        listeners.expect_wake(|wake| *wake == Wake::DueEarlier(harness.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            harness.enqueue(JobSpec { due: Due::In(delay.get()), ..JobSpec::default() }.job()).await;
        })
        .await;
    }
}

pub async fn a_retry_that_is_due_sooner_than_all_others_is_announced(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let delay = Cell::new(LONG * 200);
        let mut listeners = WakeListeners::open(&subject).await;
        listeners.expect_wake(|wake| *wake == Wake::DueEarlier(harness.queue.clone()), || async {
            delay.set(delay.get() - LONG);
            harness.enqueue(job()).await;
            harness.settle(&harness.claim_one().await, retry(delay.get())).await;
        })
        .await;
    }
}

pub async fn a_job_nobody_waits_for_ends_in_silence(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let mut wakes = harness.store.subscribe();
        for _ in 0..5 {
            run_one(&harness).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let received: Vec<_> = std::iter::from_fn(|| wakes.next().now_or_never().flatten()).collect();
        assert!(!received.iter().any(|wake| matches!(wake, Wake::Finished(_))), "{received:?}");
    }
}

async fn run_one(harness: &QueueHarness) {
    harness.enqueue(job()).await;
    harness.settle(&harness.claim_one().await, done()).await;
}

pub async fn a_handle_waits_for_the_end_elsewhere(subject: StoreUnderTest) {
    for harness in subject.harnesses() {
        let id = harness.enqueue(JobSpec { keep: Some(LONG), ..JobSpec::default() }.job()).await;
        let handle = Client::new(subject.other_connection().await).untyped_job_handle(id);
        let waiting = tokio::spawn(async move { handle.wait().await });
        harness.settle(&harness.claim_one().await, done()).await;
        until("the handle", || async { waiting.is_finished().then_some(()) }).await;
        assert_eq!(waiting.await.unwrap().unwrap().get(), "42");
    }
}
