//! Wait queues: claims that wait in this process, for stores whose claims cannot block in the
//! database.
//!
//! A poll is a query, so only as many waiters poll as there is work for. A notification of three
//! jobs wakes three waiters. One waiter makes the regular poll, which finds work that no
//! notification announced, on behalf of all. No waiter polls a queue that another has just seen
//! empty. A waiter that finds more than it can take wakes the next one. A waiter that is woken and
//! leaves without polling passes its permit on, so a permit is never lost: at worst there is one
//! poll too many.

mod poll_interval;
mod poll_permit;
mod poll_schedule;
mod queue_waiters;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use poll_interval::PollInterval;
pub use poll_permit::{PollPermit, Polled};
use queue_waiters::QueueWaiters;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::name::{Queue, QueueName};

/// The wait queues of one store in one process: one for each queue that a claim here has waited
/// for.
#[derive(Debug)]
pub struct WaitQueues {
    interval: PollInterval,
    queues: Mutex<HashMap<Queue, QueueWaiters>>,
    /// How many claims wait for any queue.
    waiting_claims: watch::Sender<usize>,
}

impl WaitQueues {
    /// Creates wait queues without waiters; `interval` is the time between regular polls.
    pub fn new(interval: PollInterval) -> Self {
        Self { interval, queues: Mutex::default(), waiting_claims: watch::Sender::new(0) }
    }

    /// Wakes up to `jobs` waiters of the queue, longest-waiting first, and returns how many. With
    /// `usize::MAX`, an unknown count, it wakes one waiter, which wakes the next if it finds more
    /// work.
    pub fn notify(&self, queue: &Queue, jobs: usize) -> usize {
        self.lock().get_mut(queue).map_or(0, |waiters| waiters.notify(jobs))
    }

    /// Wakes one waiter of each queue, because anything may have changed, and returns how many.
    pub fn notify_all(&self) -> usize {
        self.lock().values_mut().map(QueueWaiters::notify_speculative).sum()
    }

    /// The queues that a claim in this process has ever waited for; with `name`, only those of that
    /// name.
    pub fn known_queues(&self, name: Option<&QueueName>) -> Vec<Queue> {
        let known = self.lock();
        let queues = known.keys().filter(|queue| name.is_none_or(|name| queue.name == *name));
        queues.cloned().collect()
    }

    /// Whether a claim in this process has ever waited for a queue of this name.
    pub fn is_known(&self, name: &QueueName) -> bool {
        self.lock().keys().any(|queue| queue.name == *name)
    }

    /// How many claims wait for this queue now.
    pub fn waiting(&self, queue: &Queue) -> usize {
        self.lock().get(queue).map_or(0, QueueWaiters::waiting)
    }

    /// How many claims wait for any queue. A receiver is notified when the first one comes and when
    /// the last one leaves.
    pub(crate) fn waiting_claims(&self) -> watch::Receiver<usize> {
        self.waiting_claims.subscribe()
    }

    /// Waits until a poll of `queue` is worthwhile and returns the permit for it.
    ///
    /// Returns at once if the queue is not known to be empty. Dropping the future removes the
    /// waiter.
    pub async fn poll_permit<'b>(&'b self, queue: &'b Queue, clock: &'b dyn Clock) -> PollPermit<'b> {
        poll_permit::wait(self, queue, clock).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, QueueWaiters>> {
        // No code that holds this lock can panic in the middle of a change.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `action` with the waiters of the queue, creating the entry if it is missing.
    fn with_queue<T>(&self, queue: &Queue, action: impl FnOnce(&mut QueueWaiters) -> T) -> T {
        let mut queues = self.lock();
        if let Some(waiters) = queues.get_mut(queue) {
            return action(waiters);
        }
        action(queues.entry(queue.clone()).or_insert_with(|| QueueWaiters::new(self.interval)))
    }
}
