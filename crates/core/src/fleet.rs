//! Types of the fleet: kinds and keys of workers, the protocols they offer, and their capacity.
//!
//! A *worker* of the fleet is a browser that accepts clients or a process that runs jobs. A
//! *session* is a client's lease on a browser. A worker's load is the number of its sessions; no
//! separate counter exists that could drift.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::name::{InvalidName, name, within};

name!(
    /// The kind of a worker: `chromium`, `firefox`, `webkit`, or [`jobs`](WorkerKind::jobs). A
    /// colon and the kind `cmd` are not allowed, because `worker:cmd:{kind}:{id}` must not equal
    /// the key of a worker.
    WorkerKind, "kind of worker", |name| within(name, "._-") && name.len() <= 32 && name != "cmd",
    "1 to 32 of the characters a-z A-Z 0-9 . _ -, and not cmd"
);

name!(
    /// The name of a worker, unique among workers of its kind.
    WorkerName, "name of a worker", |name| (1..=192).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 192 printable ASCII characters without spaces"
);

name!(
    /// The protocol that a worker speaks: `cdp`, `bidi`, `playwright-1.64`. A worker offers one
    /// protocol at one endpoint.
    Offer, "offer", |name| within(name, "._-") && name.len() <= 64,
    "1 to 64 of the characters a-z A-Z 0-9 . _ -"
);

name!(
    /// The id of a session. It is random. A gateway with tokens also asks for the token that opened
    /// the session; without tokens the id is enough to reconnect.
    SessionId, "session id", |name| within(name, "_-") && name.len() <= 64,
    "1 to 64 of the characters a-z A-Z 0-9 _ -"
);

impl WorkerKind {
    /// The kind of job worker processes.
    pub fn jobs() -> Self {
        Self("jobs".into())
    }

    /// The kind of browsers for browser jobs.
    pub fn chromium() -> Self {
        Self("chromium".into())
    }
}

impl Offer {
    /// The default offer of a worker that does not state one: a Playwright server of any version.
    pub fn unspecified() -> Self {
        Self("playwright".into())
    }

    /// The Chrome DevTools Protocol.
    pub fn cdp() -> Self {
        Self("cdp".into())
    }

    /// The offer of a job worker, which accepts no connections.
    pub fn jobs() -> Self {
        Self("jobs".into())
    }
}

impl SessionId {
    /// A new random id that cannot be guessed.
    pub fn generate() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }
}

/// The key of a worker: `chromium:abc123`, as in `worker:chromium:abc123`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerKey {
    /// The kind.
    pub kind: WorkerKind,
    /// The name within the kind.
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

/// How many sessions a worker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Capacity {
    /// How many at the same time.
    pub concurrent: u32,
    /// How many in its lifetime, after which it is drained and replaced; 0 means unlimited.
    pub lifetime: u32,
}

impl Capacity {
    /// How many sessions a worker must have left to be preferred, among `workers` like it. The
    /// margin keeps them from all reaching their limit at the same time.
    fn margin(&self, workers: u32) -> u32 {
        (self.lifetime / workers.max(1)).max(1)
    }

    /// Whether it is preferred among `workers` like it, because it is not near its limit.
    pub fn is_preferred(&self, lifetime: u64, workers: u32) -> bool {
        self.lifetime == 0 || lifetime + u64::from(self.margin(workers)) < u64::from(self.lifetime)
    }

    /// Whether it can take one more session.
    pub fn is_free(&self, active: u32, lifetime: u64) -> bool {
        active < self.concurrent && !self.is_exhausted(lifetime)
    }

    /// Whether it has had all the sessions of its lifetime.
    pub fn is_exhausted(&self, lifetime: u64) -> bool {
        self.lifetime > 0 && lifetime >= u64::from(self.lifetime)
    }
}

/// Values for workers that do not state them, because other programs registered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerDefaults {
    /// The capacity.
    pub capacity: Capacity,
    /// How long after its last beat a worker counts as dead.
    pub beat_timeout: Duration,
}

impl Default for WorkerDefaults {
    /// Five sessions at the same time, fifty in all, dead after a minute.
    fn default() -> Self {
        Self { capacity: Capacity { concurrent: 5, lifetime: 50 }, beat_timeout: Duration::from_secs(60) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_key_is_a_kind_and_a_name() {
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
    fn a_worker_near_its_limit_is_not_preferred() {
        let room = Capacity { concurrent: 1, lifetime: 30 };
        assert!(room.is_preferred(19, 3) && !room.is_preferred(20, 3));
        assert!(!Capacity { concurrent: 1, lifetime: 1 }.is_preferred(0, 1));
    }

    #[test]
    fn a_worker_without_a_lifetime_limit_is_never_exhausted() {
        let room = Capacity { concurrent: 2, lifetime: 0 };
        assert!(room.is_free(1, u64::MAX) && !room.is_free(2, 0) && room.is_preferred(u64::MAX, 1));
    }
}
