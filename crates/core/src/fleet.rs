//! The vocabulary of the fleet: who works, what they offer, who holds one of them.
//!
//! A *member* is whoever works: a browser that takes clients, or a process that runs jobs. A *session* is a client's
//! leased hold on a browser. How many a member has is never counted up and down: it is the number of its sessions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::name::{InvalidName, name, within};

name!(
    /// What kind of worker a member is: `chromium`, `firefox`, `webkit`, or [`jobs`](WorkerKind::jobs). No colon, and
    /// not `cmd`: `worker:cmd:{kind}:{id}` must not be a member's own key.
    WorkerKind, "kind of worker", |name| within(name, "._-") && name.len() <= 32 && name != "cmd",
    "1 to 32 of the characters a-z A-Z 0-9 . _ -, and not cmd"
);

name!(
    /// What tells a member from others of its kind.
    WorkerName, "name of a worker", |name| (1..=192).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 192 printable ASCII characters without spaces"
);

name!(
    /// How clients speak to a member: `cdp`, `bidi`, `playwright-1.64`. A member offers one thing at one address.
    Offer, "offer", |name| within(name, "._-") && name.len() <= 64,
    "1 to 64 of the characters a-z A-Z 0-9 . _ -"
);

name!(
    /// The identity of a session. Whoever knows it can come back to it, so it is made at random.
    SessionId, "session id", |name| within(name, "_-") && name.len() <= 64,
    "1 to 64 of the characters a-z A-Z 0-9 _ -"
);

impl WorkerKind {
    /// The kind of processes that run jobs.
    pub fn jobs() -> Self {
        Self("jobs".into())
    }

    /// The kind of browsers that browser jobs run on.
    pub fn chromium() -> Self {
        Self("chromium".into())
    }
}

impl Offer {
    /// What a member is taken to offer that does not say: the server of some version of Playwright.
    pub fn unspecified() -> Self {
        Self("playwright".into())
    }

    /// The protocol of Chromium's own tools.
    pub fn cdp() -> Self {
        Self("cdp".into())
    }

    /// What a member says that runs jobs: nothing that anybody could connect to.
    pub fn jobs() -> Self {
        Self("jobs".into())
    }
}

impl SessionId {
    /// A new identity that nobody can guess.
    pub fn generate() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }
}

/// Who a member is: `chromium:abc123`, as in `worker:chromium:abc123`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerKey {
    /// Of which kind.
    pub kind: WorkerKind,
    /// Which of that kind.
    pub name: WorkerName,
}

impl fmt::Display for WorkerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl FromStr for WorkerKey {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let rule = "a kind, a colon and a name, such as chromium:abc123";
        let (kind, name) = text.split_once(':').ok_or_else(|| InvalidName::new("worker", text, rule))?;
        Ok(Self { kind: WorkerKind::new(kind)?, name: WorkerName::new(name)? })
    }
}

impl serde::Serialize for WorkerKey {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// How much a member takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Capacity {
    /// How many sessions at once.
    pub concurrent: u32,
    /// How many in its whole life; after that many it is drained and replaced. 0 is any number.
    pub lifetime: u32,
}

impl Capacity {
    /// How many sessions below its end a member must be to be preferred, among `workers` like it: so many that not all
    /// of them reach their end at the same time.
    fn margin(&self, workers: u32) -> u32 {
        (self.lifetime / workers.max(1)).max(1)
    }

    /// Whether it is preferred among `workers` like it: it is not near its end.
    pub fn is_preferred(&self, lifetime: u64, workers: u32) -> bool {
        self.lifetime == 0 || lifetime + u64::from(self.margin(workers)) < u64::from(self.lifetime)
    }

    /// Whether there is a place for one more.
    pub fn is_free(&self, active: u32, lifetime: u64) -> bool {
        active < self.concurrent && !self.is_exhausted(lifetime)
    }

    /// Whether it has had all the sessions it may have.
    pub fn is_exhausted(&self, lifetime: u64) -> bool {
        self.lifetime > 0 && lifetime >= u64::from(self.lifetime)
    }
}

/// What is taken for granted of members that do not say: those that other programs entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerDefaults {
    /// How much one takes on.
    pub capacity: Capacity,
    /// How long after its last beat one is taken for dead.
    pub beat_timeout: Duration,
}

impl Default for WorkerDefaults {
    /// Five at once, fifty in all, dead after a minute.
    fn default() -> Self {
        Self { capacity: Capacity { concurrent: 5, lifetime: 50 }, beat_timeout: Duration::from_secs(60) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_a_kind_and_a_name() {
        let id: WorkerKey = "jobs:host:1:0:ab".parse().unwrap();
        assert_eq!((id.kind.as_str(), id.name.as_str()), ("jobs", "host:1:0:ab"));
        assert_eq!(id.to_string(), "jobs:host:1:0:ab");
        for bad in ["", "chromium", "chromium:", ":a", "cmd:chromium:a", "a b:c"] {
            assert!(bad.parse::<WorkerKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_margin_is_a_share_of_the_lifetime_and_at_least_one() {
        let room = Capacity { concurrent: 1, lifetime: 50 };
        assert_eq!([0, 1, 3, 50, 51].map(|workers| room.margin(workers)), [50, 50, 16, 1, 1]);
    }

    #[test]
    fn whoever_is_near_its_end_is_not_preferred() {
        let room = Capacity { concurrent: 1, lifetime: 30 };
        assert!(room.is_preferred(19, 3) && !room.is_preferred(20, 3));
        assert!(!Capacity { concurrent: 1, lifetime: 1 }.is_preferred(0, 1));
    }

    #[test]
    fn a_member_without_a_lifetime_is_never_spent() {
        let room = Capacity { concurrent: 2, lifetime: 0 };
        assert!(room.is_free(1, u64::MAX) && !room.is_free(2, 0) && room.is_preferred(u64::MAX, 1));
    }
}
