//! The listeners of each channel. Listeners join and leave on any thread; the resulting actions are
//! queued here for the subscriber.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::stream::{SelectAll, Stream};
use tidemill_core::wake::Wake;
use tidemill_core::wake::{Message, MessageStream, Subject};
use tidemill_core::wake::{Subscribers, Subscription as WakeSubscription};
use tokio::sync::Notify;

use super::channel::Channel;
use super::channel_subscription::{
    ChannelSubscription, RequestNumber, SubscriptionAction, SubscriptionEvent, SubscriptionState,
};
use super::transport::TransportState;

/// The subscriptions, their listeners, and the queued actions.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    table: Mutex<SubscriptionTable>,
    listeners: [Subscribers<Message>; Channel::ALL.len()],
    /// An action was queued.
    action_added: Notify,
}

#[derive(Debug)]
struct SubscriptionTable {
    subscriptions: [ChannelSubscription; Channel::ALL.len()],
    /// At most one request and one timer for each channel: the next follows the reply to the last.
    actions: VecDeque<(Channel, SubscriptionAction)>,
}

impl Default for SubscriptionTable {
    fn default() -> Self {
        Self { subscriptions: std::array::from_fn(|_| ChannelSubscription::new()), actions: VecDeque::new() }
    }
}

impl Subscriptions {
    /// Applies an event.
    pub(super) fn record(&self, channel: Channel, event: SubscriptionEvent) {
        let mut table = self.lock();
        match table.subscriptions[channel as usize].next(event) {
            Ok(SubscriptionAction::Nothing) => return,
            // A gap has ended.
            Ok(SubscriptionAction::NotifyGap) => {
                drop(table);
                return self.publish(channel, &Wake::Everything.into());
            }
            Ok(action) => table.push_action(channel, action),
            // A bug; polling compensates for it.
            Err(illegal) => {
                return tracing::error!(%illegal, ?channel, "a subscription received an illegal event");
            }
        }
        drop(table);
        self.action_added.notify_one();
    }

    /// Whether this number belongs to the current connection.
    pub(super) fn is_current(&self, channel: Channel, number: RequestNumber) -> bool {
        self.lock().subscriptions[channel as usize].is_current(number)
    }

    /// The next action.
    pub(super) async fn next_action(&self) -> (Channel, SubscriptionAction) {
        loop {
            if let Some(action) = self.lock().actions.pop_front() {
                return action;
            }
            self.action_added.notified().await;
        }
    }

    /// Whether no channel needs a connection.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().subscriptions.iter().all(|subscription| subscription.state() == SubscriptionState::Idle)
    }

    pub(super) fn publish(&self, channel: Channel, message: &Message) {
        self.listeners[channel as usize].publish(message);
    }

    fn lock(&self) -> MutexGuard<'_, SubscriptionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriptionTable {
    fn push_action(&mut self, channel: Channel, action: SubscriptionAction) {
        if matches!(action, SubscriptionAction::StartIdleTimer(_)) {
            // A listener that joins and leaves repeatedly sets one timer, not thousands.
            self.actions.retain(|(other, set)| {
                *other != channel || !matches!(set, SubscriptionAction::StartIdleTimer(_))
            });
        }
        self.actions.push_back((channel, action));
    }
}

/// Subscribes to all channels of a subject.
pub(super) fn subscribe(state: &Arc<TransportState>, subject: Subject) -> MessageStream {
    let channels = Channel::for_subject(subject);
    let messages =
        channels.iter().map(|channel| state.subscriptions.listeners[*channel as usize].subscribe());
    let stream = SubjectStream { state: state.clone(), channels, messages: messages.collect() };
    channels.iter().for_each(|channel| state.subscriptions.record(*channel, SubscriptionEvent::Joined));
    Box::pin(stream)
}

/// A subscription to a subject, which ends when it is dropped.
struct SubjectStream {
    state: Arc<TransportState>,
    channels: &'static [Channel],
    messages: SelectAll<WakeSubscription<Message>>,
}

impl Stream for SubjectStream {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        Pin::new(&mut self.messages).poll_next(cx)
    }
}

impl Drop for SubjectStream {
    fn drop(&mut self) {
        self.channels
            .iter()
            .for_each(|channel| self.state.subscriptions.record(*channel, SubscriptionEvent::Left));
    }
}
