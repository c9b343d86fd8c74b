//! The inbox of a run: messages not received yet, and waits for messages.

use std::collections::{HashMap, VecDeque};

use tidemill_core::workflow::{StoredSignal, Topic};

/// A signal or an update, with its number in the order of arrival.
#[derive(Debug)]
pub(crate) struct InboxMessage {
    number: u64,
    pub(crate) content: StoredSignal,
}

/// Unbounded and ordered: a run never drops a message.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Boxed, because a hash table allocates room for three entries more than most runs need.
    channels: HashMap<Box<str>, Box<InboxChannel>>,
    received: u64,
}

#[derive(Debug, Default)]
struct InboxChannel {
    messages: VecDeque<InboxMessage>,
    /// The keys of the waits, first come first. Some may have ended.
    waiters: VecDeque<u64>,
}

impl Inbox {
    /// Accepts a message. If a wait takes it, returns the key of the wait and the message.
    pub(crate) fn receive(
        &mut self,
        content: StoredSignal,
        is_open: impl Fn(u64) -> bool,
    ) -> Option<(u64, InboxMessage)> {
        self.received += 1;
        let message = InboxMessage { number: self.received, content };
        let channel = self.channel(message.content.name.as_str());
        if let Some(key) = channel.next_open_waiter(is_open) {
            return Some((key, message));
        }
        channel.messages.push_back(message);
        None
    }

    /// Takes a message back from a wait that was dropped before it read it.
    pub(crate) fn return_message(
        &mut self,
        message: InboxMessage,
        is_open: impl Fn(u64) -> bool,
    ) -> Option<(u64, InboxMessage)> {
        let channel = self.channel(message.content.name.as_str());
        if let Some(key) = channel.next_open_waiter(is_open) {
            return Some((key, message));
        }
        // Waits that are dropped together return their messages in any order.
        let place = channel.messages.partition_point(|kept| kept.number < message.number);
        channel.messages.insert(place, message);
        None
    }

    /// The oldest message of this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<StoredSignal> {
        self.channels.get_mut(name)?.messages.pop_front().map(|message| message.content)
    }

    pub(crate) fn add_waiter(&mut self, name: &str, key: u64) {
        self.channel(name).waiters.push_back(key);
    }

    /// Removes a wait that has ended. One in the middle stays and is skipped by `next_open_waiter`.
    pub(crate) fn remove_waiter(&mut self, name: &str, key: u64) {
        let waiting = &mut self.channel(name).waiters;
        if waiting.back() == Some(&key) {
            waiting.pop_back();
        } else if waiting.front() == Some(&key) {
            waiting.pop_front();
        }
    }

    /// The names with an open wait.
    pub(crate) fn awaited(&self, is_open: impl Fn(u64) -> bool) -> impl Iterator<Item = Topic> {
        let has_open = move |channel: &InboxChannel| channel.waiters.iter().any(|key| is_open(*key));
        let channels = self.channels.iter().filter(move |(_, channel)| has_open(channel));
        // The code's own names are checked when a message with the name arrives, not here.
        channels.filter_map(|(name, _)| Topic::new(name).ok())
    }

    /// All messages, in the order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<StoredSignal> {
        let mut kept: Vec<_> = self.channels.drain().flat_map(|(_, channel)| channel.messages).collect();
        kept.sort_unstable_by_key(|message| message.number);
        kept.into_iter().map(|message| message.content).collect()
    }

    fn channel(&mut self, name: &str) -> &mut InboxChannel {
        self.channels.entry(name.into()).or_default()
    }
}

impl InboxChannel {
    fn next_open_waiter(&mut self, is_open: impl Fn(u64) -> bool) -> Option<u64> {
        while let Some(key) = self.waiters.pop_front() {
            if is_open(key) {
                return Some(key);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::workflow::Json;

    use super::*;

    fn signal(id: &str) -> StoredSignal {
        StoredSignal { name: "go".parse().unwrap(), payload: Json::null(), id: id.to_owned() }
    }

    #[test]
    fn what_is_given_back_in_any_order_is_received_in_its_own() {
        let mut inbox = Inbox::default();
        (1..=3).for_each(|key| inbox.add_waiter("go", key));
        let given: Vec<_> = ["a", "b", "c"].map(|id| inbox.receive(signal(id), |_| true).unwrap().1).into();
        assert!(inbox.receive(signal("d"), |_| true).is_none());
        for message in given {
            assert!(inbox.return_message(message, |_| false).is_none());
        }
        let received: Vec<_> = std::iter::from_fn(|| inbox.take("go")).map(|message| message.id).collect();
        assert_eq!(received, ["a", "b", "c", "d"]);
    }
}
