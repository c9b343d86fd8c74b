//! Everybody in one process who announces, waits or listens at one store, and the way to other processes.

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

/// How long nobody has to wait for work before the bus stops listening for it: a busy worker waits now and
/// then only, and should not subscribe each time.
const UNSUBSCRIBE_DELAY: Duration = Duration::from_secs(15);

/// Where everything in the process announces, waits and listens.
#[derive(Debug)]
pub struct Bus {
    wait_queues: WaitQueues,
    listeners: Subscribers<Wake>,
    transport: Option<Arc<dyn Transport>>,
}

impl Bus {
    /// A bus whose news is carried by `transport`, if by anybody.
    pub fn new(pace: PollInterval, transport: Option<Arc<dyn Transport>>) -> Self {
        Self { wait_queues: WaitQueues::new(pace), listeners: Subscribers::default(), transport }
    }

    /// Where claims wait.
    pub fn wait_queues(&self) -> &WaitQueues {
        &self.wait_queues
    }

    /// Announces something here at once and elsewhere soon.
    pub fn publish(&self, wake: Wake) {
        self.post(wake);
    }

    /// Announces something, and waits until the others have been told if that is a matter of a moment.
    pub async fn publish_and_flush(&self, wake: Wake) {
        if self.post(wake) == SendTiming::Now {
            self.flush().await;
        }
    }

    /// Waits until what was announced has left this process, but not for long.
    pub async fn flush(&self) {
        if let Some(transport) = &self.transport {
            transport.flush().await;
        }
    }

    fn post(&self, wake: Wake) -> SendTiming {
        let called = self.dispatch_local(wake.clone());
        match (&self.transport, remaining(wake, called)) {
            (Some(transport), Some(rest)) => transport.publish(rest),
            _ => SendTiming::Soon,
        }
    }

    /// Passes on what happened, to this process only; says how many claims were called by it.
    pub fn dispatch_local(&self, wake: Wake) -> usize {
        let called = self.ring(&wake);
        self.listeners.publish(&wake);
        called
    }

    fn ring(&self, wake: &Wake) -> usize {
        match wake {
            Wake::Queue { queue, jobs } => self.wait_queues.notify(queue, *jobs),
            // Somebody has to look to learn when.
            Wake::DueEarlier(queue) => self.wait_queues.notify(queue, 1),
            Wake::Everything => self.wait_queues.notify_all(),
            Wake::Cancel(_) | Wake::LeaseLost(_) | Wake::Finished(_) => 0,
            Wake::Worker(_) | Wake::Capacity(_) | Wake::Session(_) => 0,
        }
    }

    /// Listens from now on, to this process and the others.
    pub fn subscribe(&self) -> WakeStream {
        let here = self.listeners.subscribe();
        let Some(transport) = self.transport.clone() else { return Box::pin(here) };
        let elsewhere = transport.subscribe(Subject::Events).filter_map(move |message| {
            // Without the transport there would be no messages, so whoever listens holds on to it.
            let _held = &transport;
            std::future::ready(match message {
                Message::Wake(wake) => Some(wake),
                Message::ForeignJobs(_) => None,
            })
        });
        Box::pin(stream::select(here, elsewhere))
    }

    /// Brings work from other processes to whoever waits for some. Runs for as long as there is a store.
    pub async fn run_transport(&self, clock: &dyn Clock) {
        let Some(transport) = &self.transport else { return };
        loop {
            self.wait_queues.until_waiting().await;
            let mut messages = transport.subscribe(Subject::Work);
            // Nobody has listened until now.
            self.wait_queues.notify_all();
            let mut deserted = Box::pin(self.until_deserted(clock));
            while let Either::Left((Some(message), _)) = select(messages.next(), &mut deserted).await {
                self.dispatch(message, &**transport).await;
            }
        }
    }

    async fn until_deserted(&self, clock: &dyn Clock) {
        loop {
            self.wait_queues.until_idle().await;
            let waited_for = Box::pin(self.wait_queues.until_waiting());
            if let Either::Left(_) = select(clock.sleep(UNSUBSCRIBE_DELAY), waited_for).await {
                return;
            }
        }
    }

    /// What an operator should know about the way to other processes.
    pub async fn checkup(&self) -> Vec<Finding> {
        match &self.transport {
            Some(transport) => transport.checkup().await,
            None => Vec::new(),
        }
    }
}

/// What is left to tell the others when so many claims have been called here.
fn remaining(wake: Wake, called: usize) -> Option<Wake> {
    match wake {
        Wake::Queue { jobs, .. } if jobs <= called => None,
        Wake::Queue { queue, jobs } if jobs < usize::MAX => Some(Wake::Queue { queue, jobs: jobs - called }),
        other => Some(other),
    }
}
