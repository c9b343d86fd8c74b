//! Completion watches: who waits for the end of which job. All watches of a store share its bus, and
//! each is woken only for its own job.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use tokio::sync::watch;

use super::ListenGuard;
use crate::name::JobId;
use crate::store::Store;

/// The delay before the first poll without a wake-up, which is what a lost wake-up costs. It
/// doubles with each poll, up to the maximum. Watches are notified after every gap, so polls only
/// cover unforeseen losses.
const FIRST_POLL_DELAY: Duration = Duration::from_secs(1);
const MAX_POLL_DELAY: Duration = Duration::from_secs(16);

/// The jobs whose end is awaited in this process, by the id of their chain.
#[derive(Debug, Default)]
pub(super) struct Completions {
    jobs: Mutex<HashMap<JobId, watch::Sender<()>>>,
    was_used: AtomicBool,
}

impl Completions {
    fn register(&self, job: &JobId) -> watch::Receiver<()> {
        self.was_used.store(true, Ordering::Relaxed);
        self.lock().entry(job.clone()).or_default().subscribe()
    }

    /// Forgets a job that nobody waits for any more.
    fn release(&self, job: &JobId) {
        let mut jobs = self.lock();
        if jobs.get(job).is_some_and(|sender| sender.receiver_count() == 0) {
            jobs.remove(job);
        }
    }

    /// Notifies those who wait for this job. Not under the lock: waking runs code of the executor,
    /// which may drop a watch.
    pub(super) fn notify(&self, job: &JobId) {
        let sender = self.lock().get(job).cloned();
        sender.into_iter().for_each(|sender| sender.send_replace(()));
    }

    /// Notifies everybody: any job may have ended.
    pub(super) fn notify_all(&self) {
        let senders: Vec<_> = self.lock().values().cloned().collect();
        senders.into_iter().for_each(|sender| sender.send_replace(()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, watch::Sender<()>>> {
        // No code under the lock can panic in the middle of a change.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says when to read a job, a chain or a run again because it may have ended.
/// [`Client::watch`](crate::Client::watch) creates it. Create it before the first read, so that an
/// end in between is not missed.
pub struct CompletionWatch {
    store: Arc<dyn Store>,
    job: JobId,
    /// `None` only while it is dropped.
    notified: Option<watch::Receiver<()>>,
    poll_delay: Duration,
    _listening: ListenGuard,
}

impl CompletionWatch {
    pub(crate) fn new(store: Arc<dyn Store>, job: &JobId) -> Self {
        let (job, bus) = (job.chain(), store.bus());
        let (notified, listening) = (bus.completions.register(&job), bus.listen());
        Self { job, notified: Some(notified), poll_delay: FIRST_POLL_DELAY, _listening: listening, store }
    }

    /// Whether any task of this process has ever waited for the end of a job in this store.
    pub(crate) fn is_used(store: &dyn Store) -> bool {
        store.bus().completions.was_used.load(Ordering::Relaxed)
    }

    /// Completes when the job should be read again.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped, the next call receives the notification.
    pub async fn next(&mut self) {
        let timer = self.store.clock().sleep(self.poll_delay);
        self.poll_delay = MAX_POLL_DELAY.min(self.poll_delay * 2);
        if let Some(notified) = &mut self.notified {
            select(pin!(notified.changed()), timer).await;
        }
    }
}

impl Drop for CompletionWatch {
    fn drop(&mut self) {
        self.notified = None;
        self.store.bus().completions.release(&self.job);
    }
}

impl fmt::Debug for CompletionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionWatch").field("job", &self.job).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Wake as Call, Waker};
    use std::thread::{self, Thread};
    use std::time::Instant;

    use futures_util::FutureExt;

    use super::*;
    use crate::wake::{Bus, PollInterval, Wake};

    fn job(id: &str) -> JobId {
        JobId::new(id).unwrap()
    }

    struct Sleeper(Thread);

    impl Call for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Blocks until the waiter is notified.
    fn wait_notified(waiter: &mut watch::Receiver<()>) {
        // Long enough that only a waiter that is never woken exceeds it.
        let (limit, since) = (Duration::from_secs(120), Instant::now());
        let waker = Waker::from(Arc::new(Sleeper(thread::current())));
        let mut changed = pin!(waiter.changed());
        while changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park_timeout(limit);
            assert!(since.elapsed() < limit, "nobody was woken");
        }
    }

    fn is_notified(waiter: &mut watch::Receiver<()>) -> bool {
        waiter.changed().now_or_never().is_some()
    }

    #[test]
    fn whoever_waits_is_woken_for_its_own_end_only_and_once() {
        let bus = Bus::new(PollInterval::NEVER);
        let mut waiters = ["a", "b", "b"].map(|id| bus.completions.register(&job(id)));
        bus.dispatch(Wake::Cancel(job("b")));
        assert_eq!(waiters.each_mut().map(is_notified), [false; 3]);
        bus.dispatch(Wake::Finished(job("b~3")));
        assert_eq!(waiters.each_mut().map(is_notified), [false, true, true], "the end of a chain");
        assert_eq!(waiters.each_mut().map(is_notified), [false; 3], "it is news once");
        bus.dispatch(Wake::Everything);
        assert_eq!(waiters.each_mut().map(is_notified), [true; 3]);
    }

    #[test]
    fn what_ends_between_two_calls_is_not_missed() {
        let bus = Bus::new(PollInterval::NEVER);
        let mut waiter = bus.completions.register(&job("a"));
        assert!(!is_notified(&mut waiter));
        bus.dispatch(Wake::Finished(job("a")));
        assert!(is_notified(&mut waiter));
    }

    #[test]
    fn a_job_is_forgotten_with_the_last_who_waits_for_it() {
        let completions = Completions::default();
        let (one, mut other) = (completions.register(&job("a")), completions.register(&job("a")));
        drop(one);
        completions.release(&job("a"));
        completions.notify(&job("a"));
        assert!(is_notified(&mut other));
        drop(other);
        completions.release(&job("a"));
        assert!(completions.lock().is_empty());
    }

    #[test]
    fn everybody_is_woken_however_the_threads_meet() {
        let bus = Bus::new(PollInterval::NEVER);
        let (ends, ended) = mpsc::channel();
        thread::scope(|scope| {
            for name in 0..4 {
                let (completions, ends) = (&bus.completions, ends.clone());
                scope.spawn(move || {
                    for round in 0..2_000 {
                        // Every other id is shared by all threads.
                        let id = if round % 2 == 0 { job("shared") } else { job(&format!("{name}-{round}")) };
                        let mut waiter = completions.register(&id);
                        ends.send(Wake::Finished(id.clone())).unwrap();
                        wait_notified(&mut waiter);
                        drop(waiter);
                        completions.release(&id);
                    }
                });
            }
            drop(ends);
            for end in ended {
                bus.dispatch(end);
            }
        });
        assert!(bus.completions.lock().is_empty());
    }
}
