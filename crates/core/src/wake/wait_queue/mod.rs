//! Where the claims of a store wait that cannot block in its database, and who of them looks when.
//!
//! Looking is a query, so of all who wait for a queue in one process only as many look as there is work for:
//! a ring for three jobs calls three of them, the regular look that finds what no ring has told is made by one
//! for all, and nobody looks at a queue that another has just seen empty. Whoever finds more than it can take
//! calls the next. Whoever is called and goes away without having looked hands its turn on, so that a turn is
//! never lost: at worst it is one too many.

mod poll_interval;
mod poll_permit;
mod poll_schedule;
mod queue_waiters;
mod waiter_count;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use poll_interval::PollInterval;
pub use poll_permit::{PollPermit, Polled};
use queue_waiters::QueueWaiters;
use waiter_count::WaiterCount;

use crate::clock::Clock;
use crate::name::{Queue, QueueName};

/// The wait_queues of one store in one process, one for each queue that somebody here has waited for.
#[derive(Debug)]
pub struct WaitQueues {
    pace: PollInterval,
    posts: Mutex<HashMap<Queue, QueueWaiters>>,
    crowd: WaiterCount,
}

impl WaitQueues {
    /// Bells nobody waits at yet.
    pub fn new(pace: PollInterval) -> Self {
        Self { pace, posts: Mutex::default(), crowd: WaiterCount::default() }
    }

    /// The queue has about so many jobs more: calls as many of those who wait, the longest waiting first, and
    /// says how many. With `usize::MAX`, which is nobody's count, one is called, who calls the next if that
    /// is worth it.
    pub fn notify(&self, queue: &Queue, jobs: usize) -> usize {
        self.lock().get_mut(queue).map_or(0, |post| post.notify(jobs))
    }

    /// Something may have happened anywhere: calls one of each queue, and says how many that were.
    pub fn notify_all(&self) -> usize {
        self.lock().values_mut().map(QueueWaiters::notify_speculative).sum()
    }

    /// The queues that somebody here has ever waited for; of this name only, if one is given.
    pub fn known_queues(&self, name: Option<&QueueName>) -> Vec<Queue> {
        let posts = self.lock();
        let queues = posts.keys().filter(|queue| name.is_none_or(|name| queue.name == *name));
        queues.cloned().collect()
    }

    /// Whether anybody here has ever waited for a queue of this name.
    pub fn is_known(&self, name: &QueueName) -> bool {
        self.lock().keys().any(|queue| queue.name == *name)
    }

    /// How many wait for this queue right now.
    pub fn waiting(&self, queue: &Queue) -> usize {
        self.lock().get(queue).map_or(0, QueueWaiters::waiting)
    }

    /// Completes when somebody waits for any queue. For one caller at a time, like
    /// [`until_deserted`](Self::until_idle).
    pub async fn until_waiting(&self) {
        self.crowd.until(|waiting| waiting > 0).await;
    }

    /// Completes when nobody waits for any queue.
    pub async fn until_idle(&self) {
        self.crowd.until(|waiting| waiting == 0).await;
    }

    /// Waits until it is worth it to look at `queue`, and gets the turn to do so.
    ///
    /// That is at once if nobody knows the queue to be empty. Dropping the future gives up the place in line.
    pub async fn poll_permit<'b>(&'b self, queue: &'b Queue, clock: &'b dyn Clock) -> PollPermit<'b> {
        poll_permit::wait(self, queue, clock).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, QueueWaiters>> {
        // Nothing in here can panic half-way through a change.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the queue's post, which is made if it is new.
    fn with_queue<T>(&self, queue: &Queue, act: impl FnOnce(&mut QueueWaiters) -> T) -> T {
        let mut posts = self.lock();
        if let Some(post) = posts.get_mut(queue) {
            return act(post);
        }
        act(posts.entry(queue.clone()).or_insert_with(|| QueueWaiters::new(self.pace)))
    }
}
