//! Events: what a run receives.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::command::NotifyParent;
use super::json::Json;
use super::name::{RunId, Topic, Version, WorkflowName};

/// Something that happened outside the run's code. The first entry of every journal is one; the
/// code receives the others one at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// The run was started.
    Started(Box<RunStarted>),
    /// An activity has ended, after all its retries.
    ActivityDone {
        /// The command that scheduled it.
        seq: u64,
        /// Its result.
        result: ActivityResult,
    },
    /// A timer has fired.
    TimerFired {
        /// The command that started it.
        seq: u64,
    },
    /// A signal was received.
    Signal(StoredSignal),
    /// A child was started.
    ChildStarted {
        /// The command that started it.
        seq: u64,
        /// The id of the child.
        run: RunId,
    },
    /// A child has ended, or could not be started.
    ChildDone {
        /// The command that started it.
        seq: u64,
        /// Its result.
        result: ChildResult,
    },
    /// The cancellation of the run was requested.
    CancelRequested {
        /// The reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A caller requested an update and waits for the answer.
    Update {
        /// The id of the request.
        id: String,
        /// The name of the update.
        name: Topic,
        /// The payload.
        payload: Json,
    },
    /// A signal to another run was delivered, or could not be.
    SignalSent {
        /// The command that sent it.
        seq: u64,
        /// Whether it was delivered.
        result: SignalDelivery,
    },
}

/// The largest number of journal entries, unless the run specifies it.
pub const DEFAULT_MAX_JOURNAL_ENTRIES: u64 = 50_000;

/// The first event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version of the code at its start.
    pub version: Version,
    /// The input.
    pub input: Json,
    /// The parent, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The idempotency key it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How often this run has continued as new.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub continued: u64,
    /// The number of the last command before it continued as new. Numbers continue, so that a late
    /// result for an old command is not mistaken for one for a new command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// The run whose id seeds the random numbers, if not this one. A run that continues the journal
    /// of another must draw the same numbers.
    #[serde(default, rename = "luck", skip_serializing_if = "Option::is_none")]
    pub seed: Option<RunId>,
    /// The request that started it, if the caller chose the id: a caller whose answer was lost
    /// recognises its own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The largest number of journal entries, if not [`DEFAULT_MAX_JOURNAL_ENTRIES`]. It is part of
    /// the event because the code can read it and must see the same value in every replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How long it is kept after its end, if specified. Its children and runs that continue its
    /// journal inherit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Signals that arrived before it continued as new and that the code has not received yet, in
    /// order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<StoredSignal>,
    /// Updates that arrived before it continued as new and that the code has not received yet, in
    /// order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<StoredSignal>,
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RunStarted {
    /// The start of a run without parent, key or other options.
    pub fn new(workflow: WorkflowName, version: Version, input: Json) -> Self {
        Self {
            workflow,
            version,
            input,
            parent: None,
            key: None,
            continued: 0,
            seq: 0,
            seed: None,
            request_id: None,
            limit: None,
            keep_ms: None,
            signals: Vec::new(),
            updates: Vec::new(),
        }
    }
}

/// The parent of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's identity.
    pub run: RunId,
    /// The parent's command.
    pub seq: u64,
    /// Which events the parent receives.
    #[serde(default, rename = "told")]
    pub notify_parent: NotifyParent,
}

/// A signal or update in a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSignal {
    /// Its name.
    pub name: Topic,
    /// Its payload.
    pub payload: Json,
    /// Its id: the same for a signal that was sent twice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The result of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityResult {
    /// The output.
    Ok(Json),
    /// A failure.
    Failed(ActivityFailure),
}

/// Why an activity has no output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityFailure {
    /// The message of its last attempt.
    pub message: String,
    /// The kind of failure.
    pub kind: FailureKind,
    /// How many attempts were made.
    #[serde(default)]
    pub attempts: u32,
}

/// How an activity failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Its last attempt failed.
    Failed,
    /// It exceeded a timeout.
    TimedOut(Timeout),
    /// It was cancelled.
    Cancelled,
}

/// Which timeout was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// That of one attempt.
    StartToClose,
    /// That of all attempts, from scheduling to the end.
    ScheduleToClose,
    /// That between two heartbeats.
    Heartbeat,
}

/// The result of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildResult {
    /// The output.
    Ok(Json),
    /// An error, or it could not be started.
    Failed {
        /// The error message.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
    /// It was terminated.
    Terminated,
}

/// Whether a signal to another run was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalDelivery {
    /// It was.
    Ok,
    /// It was not.
    Failed {
        /// The reason.
        message: String,
    },
}

/// The answer to an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateResult {
    /// The result.
    Ok(Json),
    /// A failure.
    Failed {
        /// The error message.
        message: String,
    },
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StartToClose => "start-to-close",
            Self::ScheduleToClose => "schedule-to-close",
            Self::Heartbeat => "heartbeat",
        })
    }
}

impl RunEvent {
    /// The name of the event in the journal.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::ActivityDone { .. } => "activity_done",
            Self::TimerFired { .. } => "timer_fired",
            Self::Signal(_) => "signal",
            Self::ChildStarted { .. } => "child_started",
            Self::ChildDone { .. } => "child_done",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::Update { .. } => "update",
            Self::SignalSent { .. } => "signal_sent",
        }
    }
}

impl fmt::Display for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(started) => {
                write!(f, "workflow `{}` {} started", started.workflow, started.version)
            }
            Self::ActivityDone { seq, result: ActivityResult::Ok(_) } => {
                write!(f, "activity done (seq {seq})")
            }
            Self::ActivityDone { seq, .. } => write!(f, "activity failed (seq {seq})"),
            Self::TimerFired { seq } => write!(f, "timer fired (seq {seq})"),
            Self::Signal(signal) => write!(f, "signal `{}`", signal.name),
            Self::ChildStarted { seq, run } => write!(f, "child `{run}` started (seq {seq})"),
            Self::ChildDone { seq, .. } => write!(f, "child ended (seq {seq})"),
            Self::CancelRequested { .. } => f.write_str("cancel requested"),
            Self::Update { name, .. } => write!(f, "update `{name}`"),
            Self::SignalSent { seq, .. } => write!(f, "signal sent (seq {seq})"),
        }
    }
}
