//! Receiving: subscribes to the channels that this process wants, on one connection, and dispatches
//! their messages to the bus.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::{Msg, RedisError};
use tidemill_core::wake::{Bus, Interest, Wake};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::announcement::Announcement;
use super::channel::{Channel, Message};
use super::transport::TransportState;
use super::twins::ExpectedTwins;
use crate::connection::PubSubConnection;
use crate::error::classify;

/// How often the subscriber checks whether a channel is still wanted. One that is not wanted at two
/// checks in a row is given up: a busy worker waits only now and then, and should not subscribe each
/// time.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// Delay before subscribing again after a failure; up to half as long again, at random.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(300);

/// Receives while there is interest. Runs until it is dropped.
pub(super) async fn run(state: &Arc<TransportState>, bus: &Bus, announcements: mpsc::Sender<Announcement>) {
    let mut interest = bus.interest();
    loop {
        while !interest.is_any() {
            interest.changed().await;
        }
        let mut subscriber = Subscriber {
            state,
            bus,
            announcements: &announcements,
            subscribed: Vec::new(),
            unwanted: Vec::new(),
            twins: ExpectedTwins::default(),
        };
        if let Err(error) = subscriber.receive(&mut interest).await {
            state.outage.record_failure(&classify("receiving wake-ups", error));
            sleep(RESUBSCRIBE_DELAY.mul_f64(1.0 + 0.5 * fastrand::f64())).await;
        }
    }
}

/// The subscriptions of one connection.
struct Subscriber<'a> {
    state: &'a Arc<TransportState>,
    bus: &'a Bus,
    announcements: &'a mpsc::Sender<Announcement>,
    subscribed: Vec<Channel>,
    /// Those that were not wanted at the last check.
    unwanted: Vec<Channel>,
    /// Announcements whose second message is still expected.
    twins: ExpectedTwins,
}

impl Subscriber<'_> {
    /// Receives until no channel has been wanted for a while.
    async fn receive(&mut self, interest: &mut Interest) -> Result<(), RedisError> {
        let mut connection = self.state.commands.subscriptions(&self.state.options).await?;
        let mut idle_check = interval(IDLE_CHECK_INTERVAL);
        idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        idle_check.reset();
        loop {
            self.subscribe_wanted(&connection, interest).await?;
            let has_all = self.subscribed.len() == Channel::ALL.len();
            tokio::select! {
                message = connection.next() => self.dispatch(&message?),
                () = interest.changed(), if !has_all => {}
                _ = idle_check.tick() => self.unsubscribe_unwanted(&connection, interest).await?,
            }
            if self.subscribed.is_empty() && !interest.is_any() {
                return Ok(());
            }
        }
    }

    /// Subscribes to the wanted channels. Nothing was received from them until now, so everything
    /// may have changed.
    async fn subscribe_wanted(
        &mut self,
        connection: &PubSubConnection,
        interest: &Interest,
    ) -> Result<(), RedisError> {
        let is_new = |channel: &Channel| channel.is_wanted(interest) && !self.subscribed.contains(channel);
        let new: Vec<_> = Channel::ALL.into_iter().filter(is_new).collect();
        for channel in &new {
            connection.subscribe(channel.name(&self.state.keys)).await?;
            self.subscribed.push(*channel);
        }
        if !new.is_empty() {
            self.state.outage.record_success();
            self.bus.dispatch(Wake::Everything);
        }
        Ok(())
    }

    async fn unsubscribe_unwanted(
        &mut self,
        connection: &PubSubConnection,
        interest: &Interest,
    ) -> Result<(), RedisError> {
        let is_unwanted = |channel: &Channel| !channel.is_wanted(interest);
        let unwanted: Vec<_> = self.subscribed.iter().copied().filter(is_unwanted).collect();
        for channel in unwanted.iter().filter(|channel| self.unwanted.contains(channel)) {
            connection.unsubscribe(channel.name(&self.state.keys)).await?;
            self.subscribed.retain(|subscribed| subscribed != channel);
        }
        self.unwanted = unwanted;
        Ok(())
    }

    fn dispatch(&mut self, message: &Msg) {
        let name = message.get_channel_name();
        let channel = self.subscribed.iter().find(|channel| channel.name(&self.state.keys) == name);
        let Some(channel) = channel else { return };
        match channel.parse(message.get_payload_bytes()) {
            Some(Message::Wake(wake)) => {
                self.bus.dispatch(wake);
            }
            Some(Message::Announcement(announcement)) => self.announce(announcement),
            // Any client may publish.
            None => {
                self.state.ignored.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn announce(&mut self, announcement: Announcement) {
        if !self.is_duplicate(&announcement) && self.announcements.try_send(announcement).is_err() {
            // Too many are waiting for their shares: all queues are polled instead.
            self.bus.wait_queues().notify_all();
        }
    }

    /// Whether an announcement needs no action: it is this process's own, or the second of a pair.
    fn is_duplicate(&mut self, Announcement { type_name, hint }: &Announcement) -> bool {
        let Some(hint) = hint else { return self.twins.take(type_name, Instant::now()) };
        if hint.has_twin() {
            self.twins.expect(type_name, Instant::now());
        }
        self.state.own_hints.take(hint)
    }
}
