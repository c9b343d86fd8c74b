//! The bus: everything in one process that publishes, waits for or subscribes to wake-ups of one
//! store. A transport connects it to other processes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::completion::Completions;
use super::pending::{Pending, SendTiming};
use super::wait_queue::{PollInterval, WaitQueues};
use super::{Wake, WakeStream};
use crate::clock::Clock;

/// The longest backlog of a subscriber. One that is further behind gets [`Wake::Everything`].
const MAX_BACKLOG_WAKES: usize = 1_024;

/// How long a publisher waits until its wake-ups are sent. A hint is not worth more.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// Dispatches the wake-ups of one store in one process.
#[derive(Debug)]
pub struct Bus {
    wait_queues: WaitQueues,
    subscribers: broadcast::Sender<Wake>,
    pub(super) completions: Completions,
    /// How many subscribers and completion watches there are.
    listeners: watch::Sender<usize>,
    outgoing: Option<Outgoing>,
}

/// The wake-ups for other processes, and the clock that limits how long a publisher waits for them.
#[derive(Debug)]
struct Outgoing {
    pending: Pending,
    clock: Arc<dyn Clock>,
}

/// What a process wants to receive from others. A transport subscribes accordingly.
#[derive(Debug)]
pub struct Interest {
    claims: watch::Receiver<usize>,
    listeners: watch::Receiver<usize>,
}

/// Keeps the interest in wake-ups of other processes until it is dropped.
#[derive(Debug)]
pub struct ListenGuard(watch::Sender<usize>);

impl ListenGuard {
    /// Counts one more. Receivers are notified of the first and of the end of the last.
    pub(super) fn new(count: &watch::Sender<usize>) -> Self {
        count.send_if_modified(|count| {
            *count += 1;
            *count == 1
        });
        Self(count.clone())
    }
}

impl Drop for ListenGuard {
    fn drop(&mut self) {
        self.0.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
    }
}

impl Bus {
    /// Creates a bus whose wake-ups stay in this process, or are published to others by the store
    /// itself. `interval` is how often waiting claims poll.
    pub fn new(interval: PollInterval) -> Self {
        Self {
            wait_queues: WaitQueues::new(interval),
            subscribers: broadcast::Sender::new(MAX_BACKLOG_WAKES),
            completions: Completions::default(),
            listeners: watch::Sender::new(0),
            outgoing: None,
        }
    }

    /// Creates a bus whose wake-ups a transport takes from [`outgoing`](Self::outgoing).
    pub fn with_transport(interval: PollInterval, clock: Arc<dyn Clock>) -> Self {
        Self { outgoing: Some(Outgoing { pending: Pending::default(), clock }), ..Self::new(interval) }
    }

    /// The waiting claims.
    pub fn wait_queues(&self) -> &WaitQueues {
        &self.wait_queues
    }

    /// The wake-ups for other processes, if a transport takes them.
    pub fn outgoing(&self) -> Option<&Pending> {
        self.outgoing.as_ref().map(|outgoing| &outgoing.pending)
    }

    /// Publishes a wake-up: to this process at once, to others soon.
    pub fn publish(&self, wake: Wake) {
        self.publish_everywhere(wake);
    }

    /// Publishes a wake-up. If the transport sends it at once, waits until it has been sent.
    pub async fn publish_and_flush(&self, wake: Wake) {
        if self.publish_everywhere(wake) == SendTiming::Now {
            self.flush().await;
        }
    }

    /// Waits until everything published has left this process, for a short time at most.
    pub async fn flush(&self) {
        if let Some(Outgoing { pending, clock }) = &self.outgoing {
            let flushed = std::pin::pin!(pending.flushed());
            select(flushed, clock.sleep(FLUSH_TIMEOUT)).await;
        }
    }

    fn publish_everywhere(&self, wake: Wake) -> SendTiming {
        let woken = self.dispatch(wake.clone());
        match (&self.outgoing, remaining(wake, woken)) {
            (Some(outgoing), Some(rest)) => outgoing.pending.add(rest),
            _ => SendTiming::Soon,
        }
    }

    /// Delivers a wake-up in this process only. Returns how many waiting claims it woke.
    pub fn dispatch(&self, wake: Wake) -> usize {
        let woken = match &wake {
            Wake::Queue { queue, jobs } => self.wait_queues.notify(queue, *jobs),
            // One waiter has to poll to learn the due time.
            Wake::DueEarlier(queue) => self.wait_queues.notify(queue, 1),
            Wake::Everything => self.wait_queues.notify_all(),
            Wake::Cancel(_) | Wake::LeaseLost(_) | Wake::Finished(_) => 0,
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => 0,
        };
        match &wake {
            Wake::Finished(job) => self.completions.notify(&job.chain()),
            Wake::Everything => self.completions.notify_all(),
            _ => {}
        }
        // An error means that there are no subscribers.
        let _ = self.subscribers.send(wake);
        woken
    }

    /// Subscribes to the wake-ups of this process and of others. The stream never ends.
    pub fn subscribe(self: &Arc<Self>) -> WakeStream {
        let subscription = (self.subscribers.subscribe(), self.listen());
        Box::pin(stream::unfold(subscription, |(mut wakes, listening)| async move {
            let wake = match wakes.recv().await {
                Ok(wake) => wake,
                Err(RecvError::Lagged(_)) => Wake::Everything,
                Err(RecvError::Closed) => return None,
            };
            Some((wake, (wakes, listening)))
        }))
    }

    /// Declares interest in wake-ups of other processes.
    pub fn listen(&self) -> ListenGuard {
        ListenGuard::new(&self.listeners)
    }

    /// Whether there are subscribers or other listeners in this process.
    pub fn has_listeners(&self) -> bool {
        *self.listeners.borrow() > 0
    }

    /// What this process wants to receive from others.
    pub fn interest(&self) -> Interest {
        Interest { claims: self.wait_queues.waiting_claims(), listeners: self.listeners.subscribe() }
    }
}

impl Interest {
    /// Whether claims wait for work.
    pub fn in_work(&self) -> bool {
        *self.claims.borrow() > 0
    }

    /// Whether there are subscribers to events of jobs: ends, lost leases, cancellations.
    pub fn in_events(&self) -> bool {
        *self.listeners.borrow() > 0
    }

    /// Whether there is any interest.
    pub fn is_any(&self) -> bool {
        self.in_work() || self.in_events()
    }

    /// Completes when the interest has changed since the last call.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call completes instead.
    pub async fn changed(&mut self) {
        let (claims, listeners) = (self.claims.changed(), self.listeners.changed());
        select(std::pin::pin!(claims), std::pin::pin!(listeners)).await;
    }
}

/// The wake-up for other processes, after `woken` claims were notified here.
fn remaining(wake: Wake, woken: usize) -> Option<Wake> {
    match wake {
        Wake::Queue { jobs, .. } if jobs <= woken => None,
        Wake::Queue { queue, jobs } if jobs < usize::MAX => Some(Wake::Queue { queue, jobs: jobs - woken }),
        other => Some(other),
    }
}
