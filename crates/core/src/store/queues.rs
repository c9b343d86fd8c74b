//! The queue verbs: registering, pausing, purging and counting.

use async_trait::async_trait;

use super::Error;
use crate::name::Queue;

/// The queue part of a store.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Registers queues before their first job. For a store that learns of queues only by enqueues:
    /// other programs may fill a queue that no client has enqueued to. Idempotent.
    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        let _ = queues;
        Ok(())
    }

    /// Looks for queues that are not registered, because only other programs have filled them, and
    /// registers them. Returns those it found. Bounded: it may miss queues of a very large store.
    /// Idempotent. The default finds none: most stores know every queue.
    async fn discover_queues(&self) -> Result<Vec<Queue>, Error> {
        Ok(Vec::new())
    }

    /// Pauses a queue. Claims that start after this returns get no jobs. A waiting claim is
    /// notified at once and ends within its `wait`. Idempotent.
    async fn pause(&self, queue: &Queue) -> Result<(), Error>;

    /// Resumes a paused queue. Idempotent.
    async fn resume(&self, queue: &Queue) -> Result<(), Error>;

    /// Deletes the jobs of a queue that wait at the time of the call: scheduled, blocked and ready
    /// ones. Running and dead jobs stay, and so do tasks and remote commands of runs
    /// ([`JobId::is_run_internal`](crate::JobId::is_run_internal)). Jobs that are enqueued
    /// meanwhile stay. A run that waits for a deleted job is notified, as by
    /// [`cancel`](super::Jobs::cancel).
    async fn purge(&self, queue: &Queue) -> Result<u64, Error>;

    /// All known queues with their counts.
    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error>;
}

/// A queue and its counts, which stop at [`COUNT_CAP`](super::COUNT_CAP).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct QueueInfo {
    /// The queue.
    #[serde(flatten)]
    pub queue: Queue,
    /// Jobs that wait for a worker.
    pub ready: u64,
    /// Jobs that wait for their due time.
    pub scheduled: u64,
    /// Jobs that wait for other chains.
    pub blocked: u64,
    /// Jobs that are leased.
    pub running: u64,
    /// Jobs in the dead letters.
    pub dead: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Problems of the queue, in words. Counts that a problem prevents are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}
