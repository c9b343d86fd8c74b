//! The subscriber: performs the actions of all subscriptions on one connection, and dispatches
//! messages.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Msg, RedisError};
use tidemill_core::wake::{ForeignJobs, Message};
use tokio::time::sleep;

use super::channel::Channel;
use super::channel_subscription::{SubscriptionAction, SubscriptionEvent};
use super::transport::TransportState;
use super::twins::ExpectedTwins;
use crate::connection::{PubSubConnection, no_response};
use crate::error::classify;

/// How long a subscription without listeners is kept.
const UNSUBSCRIBE_DELAY: Duration = Duration::from_secs(5);

/// Delay before subscribing again after a failure; up to half as long again, at random.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(300);

/// Runs until the transport is dropped.
pub(super) async fn run(state: Arc<TransportState>) {
    let mut subscriber = Subscriber {
        state: state.clone(),
        connection: None,
        pending: FuturesUnordered::new(),
        twins: ExpectedTwins::default(),
    };
    loop {
        tokio::select! {
            (channel, action) = state.subscriptions.next_action() => subscriber.perform(channel, action).await,
            Some((channel, event)) = subscriber.pending.next() => subscriber.record(channel, event),
            message = next_message(&mut subscriber.connection) => match message {
                Ok(message) => subscriber.dispatch(&message),
                Err(error) => subscriber.disconnect(error),
            },
        }
    }
}

struct Subscriber {
    state: Arc<TransportState>,
    connection: Option<PubSubConnection>,
    /// Requests without a reply, and timers.
    pending: FuturesUnordered<PendingEvent>,
    /// Announcements whose second message is still expected.
    twins: ExpectedTwins,
}

type PendingEvent = Pin<Box<dyn Future<Output = (Channel, SubscriptionEvent)> + Send>>;

async fn next_message(connection: &mut Option<PubSubConnection>) -> Result<Msg, RedisError> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

impl Subscriber {
    async fn perform(&mut self, channel: Channel, action: SubscriptionAction) {
        let name = channel.name(&self.state.keys);
        match action {
            SubscriptionAction::Subscribe(number) => match self.open().await {
                Ok(connection) => {
                    let request = connection.subscribe(name);
                    self.pending.push(Box::pin(async move { (channel, reply_event(request.await, number)) }));
                }
                Err(error) => self.disconnect(error),
            },
            SubscriptionAction::Unsubscribe(number) => {
                // Without a connection there is nothing to unsubscribe from.
                let request = self.connection.as_ref().map(|connection| connection.unsubscribe(name));
                self.pending.push(Box::pin(async move {
                    match request {
                        Some(request) => (channel, reply_event(request.await, number)),
                        None => (channel, SubscriptionEvent::Confirmed(number)),
                    }
                }));
            }
            SubscriptionAction::RetryLater(number) => {
                let rest = RESUBSCRIBE_DELAY.mul_f64(1.0 + 0.5 * fastrand::f64());
                self.pending.push(Box::pin(async move {
                    sleep(rest).await;
                    (channel, SubscriptionEvent::RetryDue(number))
                }));
            }
            SubscriptionAction::StartIdleTimer(number) => self.pending.push(Box::pin(async move {
                sleep(UNSUBSCRIBE_DELAY).await;
                (channel, SubscriptionEvent::IdleTimeout(number))
            })),
            SubscriptionAction::Nothing | SubscriptionAction::NotifyGap => {}
        }
    }

    async fn open(&mut self) -> Result<&PubSubConnection, RedisError> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            connection => {
                Ok(connection.insert(self.state.commands.subscriptions(&self.state.options).await?))
            }
        }
    }

    fn record(&mut self, channel: Channel, event: SubscriptionEvent) {
        match event {
            // A server that fails a request may succeed on the next connection. A late failure of
            // the previous connection does not concern this one.
            SubscriptionEvent::Failed(number) if self.state.subscriptions.is_current(channel, number) => {
                self.disconnect(no_response())
            }
            SubscriptionEvent::Confirmed(_) => self.state.outage.record_success(),
            _ => {}
        }
        self.state.subscriptions.record(channel, event);
        if self.connection.is_some() && self.state.subscriptions.is_idle() {
            self.connection = None;
        }
    }

    /// The connection is closed, and with it every subscription.
    fn disconnect(&mut self, error: RedisError) {
        self.connection = None;
        self.twins.clear();
        self.state.outage.record_failure(&classify("receiving wake-ups", error));
        Channel::ALL
            .iter()
            .for_each(|channel| self.state.subscriptions.record(*channel, SubscriptionEvent::Disconnected));
    }

    fn dispatch(&mut self, message: &Msg) {
        let name = message.get_channel_name();
        let channel = Channel::ALL.into_iter().find(|channel| channel.name(&self.state.keys) == name);
        let Some(channel) = channel else { return };
        match channel.parse(message.get_payload_bytes()) {
            Some(Message::ForeignJobs(announcement)) if self.is_duplicate(&announcement) => {}
            Some(message) => self.state.subscriptions.publish(channel, &message),
            // Any client may publish.
            None => drop(self.state.ignored.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Subscriber {
    /// Whether an announcement needs no action: it is this process's own, or the second of a pair.
    fn is_duplicate(&mut self, ForeignJobs { type_name, hint }: &ForeignJobs) -> bool {
        let Some(hint) = hint else { return self.twins.take(type_name, Instant::now()) };
        if hint.has_twin() {
            self.twins.expect(type_name, Instant::now());
        }
        self.state.own_hints.take(hint)
    }
}

fn reply_event(answer: Result<(), RedisError>, number: u64) -> SubscriptionEvent {
    match answer {
        Ok(()) => SubscriptionEvent::Confirmed(number),
        Err(error) => {
            tracing::debug!(%error, "a subscription failed");
            SubscriptionEvent::Failed(number)
        }
    }
}
