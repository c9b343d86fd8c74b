//! Leases: the right of a worker to run a job until a point in time.

use std::fmt;
use std::time::Duration;

use crate::name::{JobId, Queue};

/// The longest interval between two extensions of a lease, however long the lease is.
pub const MAX_HEARTBEAT: Duration = Duration::from_secs(10);

/// The interval between extensions: a third of the lease, so that two heartbeats may fail.
pub fn heartbeat(lease: Duration) -> Duration {
    (lease / 3).min(MAX_HEARTBEAT)
}

/// The fencing token of a lease. Each new lease of a job has a greater token, so a store can reject
/// the settlement of an earlier holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u128);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The lease on a claimed job. Its holder may extend it and settle the job until it expires or a
/// newer lease is given out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The queue that the job was claimed from.
    pub queue: Queue,
    /// The job. For bytes that are not an envelope, a name that the store made up.
    pub job: JobId,
    /// The shard that contains the job; 0 in stores without shards.
    pub shard: u16,
    /// The fencing token.
    pub token: Token,
}
