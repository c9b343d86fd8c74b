//! The bus: everything in one process that publishes, waits for or subscribes to wake-ups of one
//! store, connected to other processes by a transport.

mod dispatch;
mod subscribers;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};

pub use subscribers::{Subscribers, Subscription};

use crate::clock::Clock;
use crate::store::Finding;
use crate::wake::{Message, SendTiming, Subject, Transport};
use crate::wake::{PollInterval, WaitQueues};
use crate::wake::{Wake, WakeStream};

/// How long no claim must wait before the bus unsubscribes from work. A busy worker waits only now
/// and then and should not subscribe each time.
const UNSUBSCRIBE_DELAY: Duration = Duration::from_secs(15);

/// Dispatches the wake-ups of one store in one process.
#[derive(Debug)]
pub struct Bus {
    wait_queues: WaitQueues,
    subscribers: Subscribers<Wake>,
    transport: Option<Arc<dyn Transport>>,
}

impl Bus {
    /// Creates a bus. `interval` is how often waiting claims poll; `transport` carries wake-ups to
    /// other processes.
    pub fn new(interval: PollInterval, transport: Option<Arc<dyn Transport>>) -> Self {
        Self { wait_queues: WaitQueues::new(interval), subscribers: Subscribers::default(), transport }
    }

    /// The waiting claims.
    pub fn wait_queues(&self) -> &WaitQueues {
        &self.wait_queues
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
        if let Some(transport) = &self.transport {
            transport.flush().await;
        }
    }

    fn publish_everywhere(&self, wake: Wake) -> SendTiming {
        let woken = self.dispatch_local(wake.clone());
        match (&self.transport, remaining(wake, woken)) {
            (Some(transport), Some(rest)) => transport.publish(rest),
            _ => SendTiming::Soon,
        }
    }

    /// Publishes a wake-up in this process only. Returns how many waiting claims it woke.
    pub fn dispatch_local(&self, wake: Wake) -> usize {
        let woken = self.notify_waiters(&wake);
        self.subscribers.publish(&wake);
        woken
    }

    fn notify_waiters(&self, wake: &Wake) -> usize {
        match wake {
            Wake::Queue { queue, jobs } => self.wait_queues.notify(queue, *jobs),
            // One waiter has to poll to learn the due time.
            Wake::DueEarlier(queue) => self.wait_queues.notify(queue, 1),
            Wake::Everything => self.wait_queues.notify_all(),
            Wake::Cancel(_) | Wake::LeaseLost(_) | Wake::Finished(_) => 0,
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => 0,
        }
    }

    /// Subscribes to the wake-ups of this process and of others.
    pub fn subscribe(&self) -> WakeStream {
        let local = self.subscribers.subscribe();
        let Some(transport) = self.transport.clone() else { return Box::pin(local) };
        let remote = transport.subscribe(Subject::Events).filter_map(move |message| {
            // The transport ends its messages when it is dropped, so the stream keeps it.
            let _held = &transport;
            std::future::ready(match message {
                Message::Wake(wake) => Some(wake),
                Message::ForeignJobs(_) => None,
            })
        });
        Box::pin(stream::select(local, remote))
    }

    /// Receives announcements of work from other processes while claims wait here. Runs as long as
    /// the store.
    pub async fn run_transport(&self, clock: &dyn Clock) {
        let Some(transport) = &self.transport else { return };
        loop {
            self.wait_queues.until_waiting().await;
            let mut messages = transport.subscribe(Subject::Work);
            // Nothing was received until now, so work may have been missed.
            self.wait_queues.notify_all();
            let mut idle = Box::pin(self.until_idle_for_long(clock));
            while let Either::Left((Some(message), _)) = select(messages.next(), &mut idle).await {
                self.dispatch(message, &**transport).await;
            }
        }
    }

    async fn until_idle_for_long(&self, clock: &dyn Clock) {
        loop {
            self.wait_queues.until_idle().await;
            let waiting = Box::pin(self.wait_queues.until_waiting());
            if let Either::Left(_) = select(clock.sleep(UNSUBSCRIBE_DELAY), waiting).await {
                return;
            }
        }
    }

    /// The operator's findings about the transport.
    pub async fn checkup(&self) -> Vec<Finding> {
        match &self.transport {
            Some(transport) => transport.checkup().await,
            None => Vec::new(),
        }
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
