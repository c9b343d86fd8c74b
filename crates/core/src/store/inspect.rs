//! Looking at a store: what jobs, queues and the store itself are like.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::job::JobState;
use crate::name::{JobId, Queue};

/// A count that has reached this means "this many or more": counting further would be a scan.
pub const COUNT_CAP: u64 = 1_000_000;

/// How a job ended, kept for whoever waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Which job; of several that continued one another the first: the chain.
    pub job: JobId,
    /// Done or cancelled. (A dead job's record is its letter.)
    pub state: JobState,
    /// The handler's output, as JSON.
    pub output: Bytes,
    /// Why it was discarded.
    pub error: Option<String>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// For how long the record is kept.
    pub keep: Duration,
}

/// One job, as it is now.
#[derive(Debug, Clone)]
pub struct JobInfo {
    /// Which job.
    pub job: JobId,
    /// Where it is. A record alone does not know its queue any more.
    pub queue: Option<Queue>,
    /// In which state.
    pub state: JobState,
    /// The envelope or, for a dead job, the letter. Empty if only the record is left.
    pub data: Bytes,
    /// When it is due, if it is scheduled.
    pub due: Option<Timestamp>,
    /// Who runs it, if it is running.
    pub held_by: Option<String>,
    /// Whether it is to be cancelled, if it is running.
    pub cancelling: bool,
    /// The chains it still waits for, if it is blocked; not necessarily all of very many.
    pub waits_for: Vec<JobId>,
    /// How it ended.
    pub record: Option<JobRecord>,
}

/// Which jobs to list.
#[derive(Debug)]
pub struct ListJobsParams<'a> {
    /// Of this queue.
    pub queue: &'a Queue,
    /// In this state: blocked, scheduled, ready, running or dead.
    pub state: JobState,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A bounded part of a longer list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins, if there may be one.
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

/// A queue and what is in it. Counts stop at [`COUNT_CAP`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct QueueInfo {
    /// Which queue.
    #[serde(flatten)]
    pub queue: Queue,
    /// How many jobs wait for a worker.
    pub ready: u64,
    /// How many wait for their time.
    pub scheduled: u64,
    /// How many wait for other chains.
    pub blocked: u64,
    /// How many are leased.
    pub running: u64,
    /// How many are in the dead letters.
    pub dead: u64,
    /// Whether it gives out jobs.
    pub paused: bool,
    /// What is wrong with it, in words. What cannot be counted for that reason is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// How safe an acknowledged enqueue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Gone when the store's process ends.
    Volatile,
    /// Survives the store's process; the last moments may be lost with the machine.
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

/// What an operator should know about a store.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Checkup {
    /// What it is, such as `redis 7.0.15`.
    pub server: String,
    /// How safe an acknowledged enqueue is.
    pub durability: Durability,
    /// What was looked at and found.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at.
    pub subject: String,
    /// What was found, and what to do about it.
    pub message: String,
}

impl Finding {
    /// A finding of this severity.
    pub fn new(severity: Severity, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity, subject: subject.into(), message: message.into() }
    }
}

/// How bad a finding is.
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
