//! The verbs for operators: jobs, and the health of the store. Bounded pages and counters, never a
//! scan of everything.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::Error;
use crate::clock::Timestamp;
use crate::job::JobState;
use crate::name::{JobId, Queue};

/// The largest exact count. A count of this value means "this many or more": counting further would
/// be a scan.
pub const COUNT_CAP: u64 = 1_000_000;

/// The part of a store for operators.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Looks up one job in any state. The id of any step finds the current job of the chain:
    /// [`JobInfo::job`] is the id of the current step, or that of the chain if only the record is
    /// left.
    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error>;

    /// Looks for a job that [`get_job`](Self::get_job) does not find, because another program added
    /// it and no worker has claimed it yet. Reads a bounded number of ready jobs of each known
    /// queue. The default finds none: most stores index every job.
    async fn search_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let _ = job;
        Ok(None)
    }

    /// A page of a queue's jobs in one state, oldest first. Running at-most-once jobs, which are no
    /// longer in their queue, come in any order.
    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error>;

    /// Examines the store for an operator: versions, durability, permissions, leftovers.
    async fn checkup(&self) -> Result<Checkup, Error>;

    /// Repairs findings of `checkup` that can be repaired without loss, and returns what it did.
    /// Idempotent. The default does nothing: most servers keep other programs from damaging a
    /// store.
    async fn fix(&self) -> Result<Vec<Finding>, Error> {
        Ok(Vec::new())
    }
}

/// The end of a job, kept for callers that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// The chain: the id of its first job.
    pub job: JobId,
    /// `Done` or `Cancelled`. A dead job has a dead letter instead.
    pub state: JobState,
    /// The handler's output, as JSON.
    pub output: Bytes,
    /// Why it was discarded.
    pub error: Option<String>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How long the record is kept.
    pub keep: Duration,
}

/// The current state of a job.
#[derive(Debug, Clone)]
pub struct JobInfo {
    /// The job.
    pub job: JobId,
    /// Its queue; `None` if only the record is left.
    pub queue: Option<Queue>,
    /// Its state.
    pub state: JobState,
    /// The envelope or, for a dead job, the dead letter. Empty if only the record is left.
    pub data: Bytes,
    /// When it is due, if it is scheduled.
    pub due: Option<Timestamp>,
    /// The holder of its lease, if it is running.
    pub held_by: Option<String>,
    /// Whether its cancellation was requested, if it is running.
    pub cancelling: bool,
    /// Chains it still waits for, if it is blocked. May be incomplete if there are very many.
    pub waits_for: Vec<JobId>,
    /// Its end, if it keeps its result.
    pub record: Option<JobRecord>,
}

/// Which jobs to list.
#[derive(Debug)]
pub struct ListJobsParams<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The state: blocked, scheduled, ready, running or dead.
    pub state: JobState,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// The largest number of jobs.
    pub limit: usize,
}

/// A page of a longer list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The start of the next page, if there may be one.
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

/// What an acknowledged enqueue survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Lost when the store's process ends.
    Volatile,
    /// Survives the end of the process; the last moments may be lost with the machine.
    Process,
    /// On disk before it is acknowledged.
    Fsync,
    /// On another machine before it is acknowledged.
    Replicated,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Volatile => "volatile",
            Self::Process => "process",
            Self::Fsync => "fsync",
            Self::Replicated => "replicated",
        })
    }
}

/// The result of an examination for an operator.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Checkup {
    /// The server, such as `redis 7.0.15`.
    pub server: String,
    /// What an acknowledged enqueue survives.
    pub durability: Durability,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The subject of the check.
    pub subject: String,
    /// The result, and what to do about it.
    pub message: String,
}

impl Finding {
    /// Creates a finding.
    pub fn new(severity: Severity, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity, subject: subject.into(), message: message.into() }
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Works, but an operator should know.
    Warning,
    /// Jobs may be lost or stuck.
    Bad,
}
