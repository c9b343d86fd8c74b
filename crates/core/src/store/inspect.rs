//! Results of inspection: jobs, queues, and the state of the store.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::job::JobState;
use crate::name::{JobId, Queue};

/// The largest exact count. A count of this value means "this many or more": counting further would
/// be a scan.
pub const COUNT_CAP: u64 = 1_000_000;

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

/// A queue and its counts, which stop at [`COUNT_CAP`].
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
