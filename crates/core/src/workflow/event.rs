//! What comes into a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::command::NotifyParent;
use super::json::Json;
use super::name::{RunId, Topic, Version, WorkflowName};

/// Something that happened outside of the run's code. One is the first entry of every journal; the code learns of
/// the others one at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// The run exists.
    Started(Box<RunStarted>),
    /// An activity has ended for good: retries are behind it.
    ActivityDone {
        /// The command that scheduled it.
        seq: u64,
        /// How it ended.
        result: ActivityResult,
    },
    /// A timer's time has come.
    TimerFired {
        /// The command that started it.
        seq: u64,
    },
    /// Somebody sent a signal.
    Signal(StoredSignal),
    /// A child exists.
    ChildStarted {
        /// The command that started it.
        seq: u64,
        /// Its identity.
        run: RunId,
    },
    /// A child has ended, or could not be started.
    ChildDone {
        /// The command that started it.
        seq: u64,
        /// How it ended.
        result: ChildResult,
    },
    /// Somebody wants the run to end.
    CancelRequested {
        /// Why, if they said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Somebody asks for a change and waits for the answer.
    Update {
        /// Tells one request from another.
        id: String,
        /// What is asked for.
        name: Topic,
        /// With what.
        payload: Json,
    },
    /// A signal to another run has arrived there, or could not.
    SignalSent {
        /// The command that sent it.
        seq: u64,
        /// Whether it arrived.
        result: SignalDelivery,
    },
}

/// How many entries a journal may have, unless its run says otherwise.
pub const DEFAULT_MAX_JOURNAL_ENTRIES: u64 = 50_000;

/// The first event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Its type.
    pub workflow: WorkflowName,
    /// The version of the code it was started for.
    pub version: Version,
    /// What it was given.
    pub input: Json,
    /// Whose child it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The idempotency key it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How often this run has continued as new before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub continued: u64,
    /// The number of its predecessor's last command. Numbers go on, so that a late answer to the predecessor is
    /// not taken for one to this run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// Whose luck it has, if not its own: a run that begins where another was must draw the same numbers.
    #[serde(default, rename = "luck", skip_serializing_if = "Option::is_none")]
    pub seed: Option<RunId>,
    /// Which request has started it, if the caller chose its id: a caller whose answer was lost recognises its own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How many entries its journal may have, if not [`DEFAULT_MAX_JOURNAL_ENTRIES`]. Here, because the code sees it, and must
    /// see the same in every replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How long it is kept when it has ended, if somebody said so: its children, and who begins where it was, are kept as
    /// long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Signals its predecessor had got and not yet received, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<StoredSignal>,
    /// Updates its predecessor had got and not yet received, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<StoredSignal>,
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RunStarted {
    /// The beginning of a run that nobody but its code has a say in.
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

/// The run that started a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's identity.
    pub run: RunId,
    /// The parent's command.
    pub seq: u64,
    /// What the parent wants to hear.
    #[serde(default, rename = "told")]
    pub notify_parent: NotifyParent,
}

/// A signal as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSignal {
    /// What it says.
    pub name: Topic,
    /// With what.
    pub payload: Json,
    /// Tells a signal that was sent twice from two signals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// How an activity ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityResult {
    /// With this result.
    Ok(Json),
    /// Without one.
    Failed(ActivityFailure),
}

/// Why an activity has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityFailure {
    /// What its last attempt said.
    pub message: String,
    /// What became of it.
    pub kind: FailureKind,
    /// How many attempts were made.
    #[serde(default)]
    pub attempts: u32,
}

/// What became of an activity without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Its last attempt failed.
    Failed,
    /// It took too long.
    TimedOut(Timeout),
    /// It was cancelled.
    Cancelled,
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// One attempt.
    StartToClose,
    /// All of it, from being scheduled to its end.
    ScheduleToClose,
    /// The time between two signs of life.
    Heartbeat,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildResult {
    /// With this result.
    Ok(Json),
    /// With an error, or it could not be started.
    Failed {
        /// What went wrong.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
    /// It was ended from outside without being asked.
    Terminated,
}

/// Whether a signal to another run arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalDelivery {
    /// It did.
    Ok,
    /// It did not.
    Failed {
        /// Why not.
        message: String,
    },
}

/// The answer to an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateResult {
    /// It was done.
    Ok(Json),
    /// It was not.
    Failed {
        /// Why not.
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
    /// What it is, in the journal's word.
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
