//! Does what the subscriptions need done, on one connection for all of them, and passes messages on.

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
use super::channel_subscription::{Action, Event};
use super::transport::Office;
use super::twins::Twins;
use crate::connection::{Subscriptions, silent};
use crate::error::classify;

/// How long nobody has to listen before a subscription is stopped.
const LINGER: Duration = Duration::from_secs(5);

/// How long to wait before subscribing again after a failure; up to half as long again, at random.
const REST: Duration = Duration::from_millis(300);

/// Runs until the courier is dropped.
pub(super) async fn run(office: Arc<Office>) {
    let mut subscriber = Subscriber {
        office: office.clone(),
        line: None,
        pending: FuturesUnordered::new(),
        twins: Twins::default(),
    };
    loop {
        tokio::select! {
            (channel, action) = office.board.next_action() => subscriber.act(channel, action).await,
            Some((channel, event)) = subscriber.pending.next() => subscriber.note(channel, event),
            message = next_message(&mut subscriber.line) => match message {
                Ok(message) => subscriber.pass_on(&message),
                Err(error) => subscriber.cut(error),
            },
        }
    }
}

struct Subscriber {
    office: Arc<Office>,
    line: Option<Subscriptions>,
    /// Requests without an answer yet, and timers.
    pending: FuturesUnordered<Pending>,
    /// Announcements whose second form is still to come.
    twins: Twins,
}

type Pending = Pin<Box<dyn Future<Output = (Channel, Event)> + Send>>;

async fn next_message(line: &mut Option<Subscriptions>) -> Result<Msg, RedisError> {
    match line {
        Some(line) => line.next().await,
        None => std::future::pending().await,
    }
}

impl Subscriber {
    async fn act(&mut self, channel: Channel, action: Action) {
        let name = channel.name(&self.office.keys);
        match action {
            Action::Subscribe(number) => match self.open().await {
                Ok(line) => {
                    let asked = line.subscribe(name);
                    self.pending.push(Box::pin(async move { (channel, answer(asked.await, number)) }));
                }
                Err(error) => self.cut(error),
            },
            Action::Unsubscribe(number) => {
                // Without a connection there is nothing to unsubscribe from.
                let asked = self.line.as_ref().map(|line| line.unsubscribe(name));
                self.pending.push(Box::pin(async move {
                    match asked {
                        Some(asked) => (channel, answer(asked.await, number)),
                        None => (channel, Event::Confirmed(number)),
                    }
                }));
            }
            Action::Rest(number) => {
                let rest = REST.mul_f64(1.0 + 0.5 * fastrand::f64());
                self.pending.push(Box::pin(async move {
                    sleep(rest).await;
                    (channel, Event::Rested(number))
                }));
            }
            Action::Linger(number) => self.pending.push(Box::pin(async move {
                sleep(LINGER).await;
                (channel, Event::Lingered(number))
            })),
            Action::Nothing | Action::Resume => {}
        }
    }

    async fn open(&mut self) -> Result<&Subscriptions, RedisError> {
        match &mut self.line {
            Some(line) => Ok(line),
            line => Ok(line.insert(self.office.commands.subscriptions(&self.office.options).await?)),
        }
    }

    fn note(&mut self, channel: Channel, event: Event) {
        match event {
            // A server that does not do what it is asked on a connection may do so on the next. Late word of the
            // connection before says nothing of this one.
            Event::Failed(number) if self.office.board.is_current(channel, number) => self.cut(silent()),
            Event::Confirmed(_) => self.office.outage.is_over(),
            _ => {}
        }
        self.office.board.note(channel, event);
        if self.line.is_some() && self.office.board.is_idle() {
            self.line = None;
        }
    }

    /// The connection is gone, and with it every subscription.
    fn cut(&mut self, error: RedisError) {
        self.line = None;
        self.twins.clear();
        self.office.outage.begins(&classify("hearing other processes", error));
        Channel::ALL.iter().for_each(|channel| self.office.board.note(*channel, Event::Cut));
    }

    fn pass_on(&mut self, message: &Msg) {
        let name = message.get_channel_name();
        let channel = Channel::ALL.into_iter().find(|channel| channel.name(&self.office.keys) == name);
        let Some(channel) = channel else { return };
        match channel.read(message.get_payload_bytes()) {
            Some(Message::ForeignJobs(scheduled)) if self.is_known(&scheduled) => {}
            Some(message) => self.office.board.tell(channel, &message),
            // Anyone may publish.
            None => drop(self.office.ignored.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Subscriber {
    /// Whether there is nothing to do about an announcement: it is this process's own, or the second form of another.
    fn is_known(&mut self, ForeignJobs { type_name, hint }: &ForeignJobs) -> bool {
        let Some(hint) = hint else { return self.twins.recognise(type_name, Instant::now()) };
        if hint.has_twin() {
            self.twins.expect(type_name, Instant::now());
        }
        self.office.own.recognise(hint)
    }
}

fn answer(answer: Result<(), RedisError>, number: u64) -> Event {
    match answer {
        Ok(()) => Event::Confirmed(number),
        Err(error) => {
            tracing::debug!(%error, "a subscription failed");
            Event::Failed(number)
        }
    }
}
