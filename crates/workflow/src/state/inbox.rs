//! Messages to a run that its code has not asked for yet, and code that has asked for messages not yet there.

use std::collections::{HashMap, VecDeque};

use tidemill_core::workflow::StoredSignal;

/// A signal or an update, with its place in the order of all that came.
#[derive(Debug)]
pub(crate) struct Message {
    number: u64,
    pub(crate) content: StoredSignal,
}

/// Unbounded and in order: nothing that was sent to a run is ever dropped.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// In boxes, because a table has room for three more than most runs need.
    channels: HashMap<Box<str>, Box<Channel>>,
    arrived: u64,
}

#[derive(Debug, Default)]
struct Channel {
    kept: VecDeque<Message>,
    /// The keys of those who wait, first come first. Some may have stopped waiting.
    waiting: VecDeque<u64>,
}

impl Inbox {
    /// Takes a message in. Returns the key of the wait it answers, and the message, if there is one.
    pub(crate) fn arrive(
        &mut self,
        content: StoredSignal,
        is_open: impl Fn(u64) -> bool,
    ) -> Option<(u64, Message)> {
        self.arrived += 1;
        let message = Message { number: self.arrived, content };
        let channel = self.channel(message.content.name.as_str());
        if let Some(key) = channel.next_waiting(is_open) {
            return Some((key, message));
        }
        channel.kept.push_back(message);
        None
    }

    /// A message that was given to a wait which ended before it looked.
    pub(crate) fn give_back(
        &mut self,
        message: Message,
        is_open: impl Fn(u64) -> bool,
    ) -> Option<(u64, Message)> {
        let channel = self.channel(message.content.name.as_str());
        if let Some(key) = channel.next_waiting(is_open) {
            return Some((key, message));
        }
        // Those who stop waiting together give back in any order.
        let place = channel.kept.partition_point(|kept| kept.number < message.number);
        channel.kept.insert(place, message);
        None
    }

    /// The oldest message of this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<StoredSignal> {
        self.channels.get_mut(name)?.kept.pop_front().map(|message| message.content)
    }

    pub(crate) fn wait(&mut self, name: &str, key: u64) {
        self.channel(name).waiting.push_back(key);
    }

    /// The wait has ended. One that is neither first nor last is found to have ended when its turn comes.
    pub(crate) fn forget(&mut self, name: &str, key: u64) {
        let waiting = &mut self.channel(name).waiting;
        if waiting.back() == Some(&key) {
            waiting.pop_back();
        } else if waiting.front() == Some(&key) {
            waiting.pop_front();
        }
    }

    /// All that was kept, in the order in which it came.
    pub(crate) fn drain(&mut self) -> Vec<StoredSignal> {
        let mut kept: Vec<_> = self.channels.drain().flat_map(|(_, channel)| channel.kept).collect();
        kept.sort_unstable_by_key(|message| message.number);
        kept.into_iter().map(|message| message.content).collect()
    }

    fn channel(&mut self, name: &str) -> &mut Channel {
        self.channels.entry(name.into()).or_default()
    }
}

impl Channel {
    fn next_waiting(&mut self, is_open: impl Fn(u64) -> bool) -> Option<u64> {
        while let Some(key) = self.waiting.pop_front() {
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
        (1..=3).for_each(|key| inbox.wait("go", key));
        let given: Vec<_> = ["a", "b", "c"].map(|id| inbox.arrive(signal(id), |_| true).unwrap().1).into();
        assert!(inbox.arrive(signal("d"), |_| true).is_none());
        for message in given {
            assert!(inbox.give_back(message, |_| false).is_none());
        }
        let received: Vec<_> = std::iter::from_fn(|| inbox.take("go")).map(|message| message.id).collect();
        assert_eq!(received, ["a", "b", "c", "d"]);
    }
}
