//! A worker's right to run a job until a time.

use std::fmt;
use std::time::Duration;

use crate::name::{JobId, Queue};

/// However long a lease is, its worker extends it this often.
pub const MAX_HEARTBEAT: Duration = Duration::from_secs(10);

/// How often a worker extends its leases: at a third of one, so that two heartbeats may fail.
pub fn heartbeat(lease: Duration) -> Duration {
    (lease / 3).min(MAX_HEARTBEAT)
}

/// The fence of a lease: a job's next lease always has a greater one, so a store can tell a late worker's
/// settlement from the current one's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u128);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A claim on one job. Whoever holds it may extend and settle the job until the lease runs out or someone
/// else is given a newer one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Where the job was claimed.
    pub queue: Queue,
    /// Which job. For bytes that are no envelope, a name made up by the store.
    pub job: JobId,
    /// The slice of the keyspace that holds the job; 0 in stores that have one.
    pub shard: u16,
    /// The fence.
    pub token: Token,
}
