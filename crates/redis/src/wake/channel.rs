//! The channels, and the messages on each.

use tidemill_core::JobId;
use tidemill_core::wake::{Interest, Wake};

use super::announcement::Announcement;
use super::hint::Hint;
use crate::connection::keys::WakeKeys;

/// Longer messages are ignored: a valid one has at most two UUIDs and a name.
const MAX_MESSAGE_BYTES: usize = 512;

/// A message from another process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A wake-up.
    Wake(Wake),
    /// A program announces jobs.
    Announcement(Announcement),
}

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Jobs were enqueued: `{hintId}:{typeName}`, or `{typeName}` alone.
    Sched,
    /// A chain, or a job whose result is kept, has finished: its id.
    Chainc,
    /// A worker has lost the lease of a job: its id.
    Owls,
    /// Any other wake-up of a store, as text.
    Wake,
}

impl Channel {
    pub(super) const ALL: [Self; 4] = [Self::Sched, Self::Chainc, Self::Owls, Self::Wake];

    /// Whether a process with this interest wants its messages.
    pub(super) fn is_wanted(self, interest: &Interest) -> bool {
        match self {
            Self::Sched => interest.in_work(),
            Self::Chainc | Self::Owls => interest.in_events(),
            Self::Wake => interest.is_any(),
        }
    }

    pub(super) fn name(self, keys: &WakeKeys) -> String {
        match self {
            Self::Sched => keys.sched(),
            Self::Chainc => keys.chainc(),
            Self::Owls => keys.owls(),
            Self::Wake => keys.wake(),
        }
    }

    /// Parses a message; `None` if it is invalid.
    pub(super) fn parse(self, message: &[u8]) -> Option<Message> {
        let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= MAX_MESSAGE_BYTES)?;
        match self {
            Self::Sched => parse_announcement(text).map(Message::Announcement),
            Self::Chainc => JobId::new(text).ok().map(|id| Message::Wake(Wake::Finished(id))),
            Self::Owls => JobId::new(text).ok().map(|id| Message::Wake(Wake::LeaseLost(id))),
            Self::Wake => text.parse::<Wake>().ok().map(Message::Wake),
        }
    }
}

/// The announcement of jobs of a queue, with a hint.
pub(super) fn hinted_message(hint: &Hint, type_name: &str) -> String {
    format!("{hint}:{type_name}")
}

/// Parses an announcement. A valid hint before the first colon is the hint; otherwise the whole
/// text is the name, as it always is since 0.12.
fn parse_announcement(text: &str) -> Option<Announcement> {
    let hinted = text.split_once(':').and_then(|(hint, name)| Some((hint.parse().ok()?, name)));
    let (hint, type_name) = hinted.map_or((None, text), |(hint, name)| (Some(hint), name));
    let is_name = !type_name.is_empty() && !type_name.chars().any(char::is_control);
    is_name.then(|| Announcement { type_name: type_name.to_owned(), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn read(text: &str) -> Option<(String, Option<String>)> {
        match Channel::Sched.parse(text.as_bytes()) {
            Some(Message::Announcement(Announcement { type_name, hint })) => {
                Some((type_name, hint.map(|hint| hint.to_string())))
            }
            _ => None,
        }
    }

    #[test]
    fn a_hint_goes_before_the_first_colon() {
        let hinted = |name: &str| Some((name.to_owned(), Some(HINT.to_owned())));
        assert_eq!(read(&format!("{HINT}:process-order")), hinted("process-order"));
        assert_eq!(read(&format!("{HINT}:order:created")), hinted("order:created"));
        assert_eq!(read(&hinted_message(&HINT.parse().unwrap(), "mail")), hinted("mail"));
    }

    #[test]
    fn what_has_no_hint_is_a_name() {
        for name in ["process-order", "order:created", "550e8400:mail", HINT, "ein Auftrag"] {
            assert_eq!(read(name), Some((name.to_owned(), None)));
        }
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for noise in ["", "\0", "a\nb", &format!("{HINT}:"), &"x".repeat(MAX_MESSAGE_BYTES + 1)] {
            assert_eq!(read(noise), None, "{noise:?}");
        }
        assert_eq!(Channel::Sched.parse(&[0xff, 0xfe]), None);
        for channel in [Channel::Chainc, Channel::Owls, Channel::Wake] {
            assert_eq!(channel.parse(b""), None);
            assert_eq!(channel.parse(b"two words"), None);
        }
    }
}
