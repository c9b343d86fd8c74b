//! The channels, and what is said on each.

use tidemill_core::JobId;
use tidemill_core::wake::Wake;
use tidemill_core::wake::{ForeignJobs, Hint, Message, Subject};

use crate::connection::keys::WakeKeys;

/// No message worth hearing is longer: two UUIDs and a name.
const LONGEST: usize = 512;

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Jobs are there: `{hintId}:{typeName}`, or `{typeName}` alone.
    Sched,
    /// A chain, or a job whose result is kept, has ended: its id.
    Chainc,
    /// A job's lease was taken from its worker: its id.
    Owls,
    /// Whatever else a store of ours tells: a wake-up as text.
    Wake,
}

impl Channel {
    pub(super) const ALL: [Self; 4] = [Self::Sched, Self::Chainc, Self::Owls, Self::Wake];

    /// The channels a listener has to hear.
    pub(super) fn of(topic: Subject) -> &'static [Self] {
        match topic {
            Subject::Work => &[Self::Sched, Self::Wake],
            Subject::Events => &[Self::Chainc, Self::Owls, Self::Wake],
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

    /// What a message means; `None` if nothing.
    pub(super) fn read(self, message: &[u8]) -> Option<Message> {
        let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= LONGEST)?;
        match self {
            Self::Sched => scheduled(text).map(Message::ForeignJobs),
            Self::Chainc => JobId::new(text).ok().map(|id| Wake::Finished(id).into()),
            Self::Owls => JobId::new(text).ok().map(|id| Wake::LeaseLost(id).into()),
            Self::Wake => text.parse::<Wake>().ok().map(Message::from),
        }
    }
}

/// The message about jobs of a queue, with a hint.
pub(super) fn announce(hint: &Hint, type_name: &str) -> String {
    format!("{hint}:{type_name}")
}

/// What comes before the first colon is a hint, if it can be one; else it is part of the name, and since 0.12
/// there is nothing else.
fn scheduled(text: &str) -> Option<ForeignJobs> {
    let hinted = text.split_once(':').and_then(|(hint, name)| Some((hint.parse().ok()?, name)));
    let (hint, type_name) = hinted.map_or((None, text), |(hint, name)| (Some(hint), name));
    let is_name = !type_name.is_empty() && !type_name.chars().any(char::is_control);
    is_name.then(|| ForeignJobs { type_name: type_name.to_owned(), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn read(text: &str) -> Option<(String, Option<String>)> {
        match Channel::Sched.read(text.as_bytes()) {
            Some(Message::ForeignJobs(ForeignJobs { type_name, hint })) => {
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
        assert_eq!(read(&announce(&HINT.parse().unwrap(), "mail")), hinted("mail"));
    }

    #[test]
    fn what_has_no_hint_is_a_name() {
        for name in ["process-order", "order:created", "550e8400:mail", HINT, "ein Auftrag"] {
            assert_eq!(read(name), Some((name.to_owned(), None)));
        }
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for noise in ["", "\0", "a\nb", &format!("{HINT}:"), &"x".repeat(LONGEST + 1)] {
            assert_eq!(read(noise), None, "{noise:?}");
        }
        assert_eq!(Channel::Sched.read(&[0xff, 0xfe]), None);
        for channel in [Channel::Chainc, Channel::Owls, Channel::Wake] {
            assert_eq!(channel.read(b""), None);
            assert_eq!(channel.read(b"two words"), None);
        }
    }
}
