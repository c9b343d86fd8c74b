//! Who listens to which channel. Listeners come and go on any thread; what that means for a subscription is
//! left here for the subscriber to do.

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
use super::channel_subscription::{Action, Event, Number, State, Subscription};
use super::transport::Office;

/// The subscriptions, those who listen to them, and what is to be done.
#[derive(Debug, Default)]
pub(super) struct Board {
    desk: Mutex<Desk>,
    listeners: [Subscribers<Message>; Channel::ALL.len()],
    /// Something is to be done.
    posted: Notify,
}

#[derive(Debug)]
struct Desk {
    subscriptions: [Subscription; Channel::ALL.len()],
    /// At most one request and one timer for each channel: the next comes when the last is answered.
    actions: VecDeque<(Channel, Action)>,
}

impl Default for Desk {
    fn default() -> Self {
        Self { subscriptions: std::array::from_fn(|_| Subscription::new()), actions: VecDeque::new() }
    }
}

impl Board {
    /// Takes note of an event.
    pub(super) fn note(&self, channel: Channel, event: Event) {
        let mut desk = self.lock();
        match desk.subscriptions[channel as usize].next(event) {
            Ok(Action::Nothing) => return,
            // A gap has ended.
            Ok(Action::Resume) => {
                drop(desk);
                return self.tell(channel, &Wake::Everything.into());
            }
            Ok(action) => desk.post(channel, action),
            // A mistake in this program, which polling makes up for.
            Err(illegal) => return tracing::error!(%illegal, ?channel, "a subscription went astray"),
        }
        drop(desk);
        self.posted.notify_one();
    }

    /// Whether what comes back with this number is about the connection there is now.
    pub(super) fn is_current(&self, channel: Channel, number: Number) -> bool {
        self.lock().subscriptions[channel as usize].is_current(number)
    }

    /// The next thing to do.
    pub(super) async fn next_action(&self) -> (Channel, Action) {
        loop {
            if let Some(action) = self.lock().actions.pop_front() {
                return action;
            }
            self.posted.notified().await;
        }
    }

    /// Whether nobody needs a connection.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().subscriptions.iter().all(|subscription| subscription.state() == State::Idle)
    }

    pub(super) fn tell(&self, channel: Channel, message: &Message) {
        self.listeners[channel as usize].publish(message);
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn post(&mut self, channel: Channel, action: Action) {
        if matches!(action, Action::Linger(_)) {
            // Whoever comes and goes all the time sets one timer, not thousands.
            self.actions.retain(|(other, set)| *other != channel || !matches!(set, Action::Linger(_)));
        }
        self.actions.push_back((channel, action));
    }
}

/// Listens to everything about a topic.
pub(super) fn listen(office: &Arc<Office>, topic: Subject) -> MessageStream {
    let channels = Channel::of(topic);
    let heard = channels.iter().map(|channel| office.board.listeners[*channel as usize].subscribe());
    let hearing = Hearing { office: office.clone(), channels, heard: heard.collect() };
    channels.iter().for_each(|channel| office.board.note(*channel, Event::Joined));
    Box::pin(hearing)
}

/// A listener, who leaves when it is dropped.
struct Hearing {
    office: Arc<Office>,
    channels: &'static [Channel],
    heard: SelectAll<WakeSubscription<Message>>,
}

impl Stream for Hearing {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        Pin::new(&mut self.heard).poll_next(cx)
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.channels.iter().for_each(|channel| self.office.board.note(*channel, Event::Left));
    }
}
