//! A queue that is a number, a manual clock, and claims that stop wherever a test wants.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::store::Claimed;
use tidemill_core::wake::{PollInterval, PollPermit, Polled, WaitQueues};
use tidemill_core::{Clock, Error, JobId, Lease, Queue, QueueName, Timestamp, Token};

pub(crate) const SHORTEST: Duration = Duration::from_secs(1);
pub(crate) const LONGEST: Duration = Duration::from_secs(4);

/// A clock that stands still until it is advanced.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    now: Mutex<Timestamp>,
    sleepers: Arc<Mutex<Vec<Waker>>>,
}

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now.after(by);
        self.sleepers.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

impl Clock for &'static ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (clock, end) = (*self, self.now().after(duration));
        Box::pin(std::future::poll_fn(move |cx| {
            if clock.now() >= end {
                return Poll::Ready(());
            }
            clock.sleepers.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        }))
    }
}

#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Waiting = Pin<Box<dyn Future<Output = PollPermit<'static>>>>;

/// The stage of a claim.
enum Stage {
    Waiting(Waiting, Arc<Flag>),
    /// It has the permit and has not asked the store yet.
    Permit(PollPermit<'static>),
    /// The store has answered, and the wait queues do not know yet.
    Answered(PollPermit<'static>, Polled),
}

/// What a claim does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Waiting,
    Permit,
    Answered,
}

/// A claim for up to `max` jobs.
pub(crate) struct Claimer {
    max: usize,
    stage: Option<Stage>,
}

/// The queue and all its claims. Values that live as long as the test process may be leaked.
pub(crate) struct World {
    pub(crate) wait_queues: &'static WaitQueues,
    pub(crate) queue: &'static Queue,
    pub(crate) clock: &'static ManualClock,
    clock_ref: &'static dyn Clock,
    pub(crate) ready: usize,
    pub(crate) scheduled: Vec<Timestamp>,
    pub(crate) claimers: Vec<Claimer>,
    /// How often the store was asked.
    pub(crate) polls: usize,
}

impl World {
    pub(crate) fn new(interval: PollInterval) -> Self {
        let clock: &'static ManualClock = Box::leak(Box::default());
        Self {
            wait_queues: Box::leak(Box::new(WaitQueues::new(interval))),
            queue: Box::leak(Box::new(Queue::at_least_once(QueueName::new("mail").unwrap()))),
            clock,
            clock_ref: Box::leak(Box::new(clock)),
            ready: 0,
            scheduled: Vec::new(),
            claimers: Vec::new(),
            polls: 0,
        }
    }

    pub(crate) fn polling() -> Self {
        Self::new(PollInterval::new(SHORTEST, LONGEST))
    }

    pub(crate) fn join(&mut self, max: usize) {
        let stage = Some(self.line_up());
        self.claimers.push(Claimer { max, stage });
    }

    fn line_up(&self) -> Stage {
        let waiting = Box::pin(self.wait_queues.poll_permit(self.queue, self.clock_ref));
        // A future is polled once without being woken.
        Stage::Waiting(waiting, Arc::new(Flag(true.into())))
    }

    pub(crate) fn notify(&self, jobs: usize) -> usize {
        self.wait_queues.notify(self.queue, jobs)
    }

    /// Advances a claim by one step; `false` if it sleeps.
    pub(crate) fn step(&mut self, index: usize) -> bool {
        match self.claimers[index].stage.take() {
            Some(Stage::Waiting(waiting, flag)) => self.poll(index, waiting, flag),
            Some(Stage::Permit(permit)) => {
                let found = self.poll_store(self.claimers[index].max);
                self.claimers[index].stage = Some(Stage::Answered(permit, found));
                true
            }
            Some(Stage::Answered(permit, found)) => {
                if permit.finish(Ok(found)).unwrap().is_empty() {
                    self.claimers[index].stage = Some(self.line_up());
                } else {
                    self.claimers.remove(index);
                }
                true
            }
            None => unreachable!("a claim is somewhere"),
        }
    }

    fn poll(&mut self, index: usize, mut waiting: Waiting, flag: Arc<Flag>) -> bool {
        if !flag.0.swap(false, Ordering::SeqCst) {
            self.claimers[index].stage = Some(Stage::Waiting(waiting, flag));
            return false;
        }
        let waker = Waker::from(flag.clone());
        self.claimers[index].stage = Some(match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => Stage::Permit(permit),
            Poll::Pending => Stage::Waiting(waiting, flag),
        });
        true
    }

    /// What the store does: takes the due jobs.
    fn poll_store(&mut self, max: usize) -> Polled {
        self.polls += 1;
        let now = self.clock.now();
        let before = self.scheduled.len();
        self.scheduled.retain(|due| *due > now);
        self.ready += before - self.scheduled.len();
        let taken = max.min(self.ready);
        self.ready -= taken;
        let next = self.scheduled.iter().min().copied();
        Polled { jobs: (0..taken).map(|_| job(self.queue)).collect(), more: taken == max, next }
    }

    /// A claim whose poll fails ends with the error.
    pub(crate) fn fail(&mut self, index: usize) {
        if let Some(Stage::Permit(permit)) = self.claimers.remove(index).stage {
            let away = Error::Unavailable { message: "away".into(), source: None };
            assert!(permit.finish(Err(away)).is_err());
        }
    }

    pub(crate) fn at(&self, index: usize) -> At {
        match self.claimers[index].stage {
            Some(Stage::Permit(_)) => At::Permit,
            Some(Stage::Answered(..)) => At::Answered,
            _ => At::Waiting,
        }
    }

    /// Runs all claims until all of them sleep.
    pub(crate) fn settle(&mut self) {
        let mut index = 0;
        while index < self.claimers.len() {
            index = if self.step(index) { 0 } else { index + 1 };
        }
    }
}

fn job(queue: &Queue) -> Claimed {
    let lease = |_: Option<&JobId>| Lease {
        queue: queue.clone(),
        job: JobId::new("a").unwrap(),
        shard: 0,
        token: Token(1),
    };
    Claimed::read(Bytes::from_static(b"not read here"), true, lease)
}
