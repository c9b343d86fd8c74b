//! Commands: what a run's code requests.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};

use serde::{Deserialize, Serialize};

use super::event::{ActivityResult, UpdateResult};
use super::json::Json;
use super::name::{RunId, Topic, WorkflowName};
use super::retry::RetryPolicy;
use crate::name::{Kind, QueueName};

/// A command of a run. `seq` is one counter over all commands of a run that have one; the event
/// that answers a command carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Schedules a job whose result is delivered to the run.
    ScheduleActivity(Box<ScheduleActivity>),
    /// Cancels an activity.
    CancelActivity {
        /// The activity.
        seq: u64,
    },
    /// Starts a timer; the run receives an event when it fires.
    StartTimer {
        /// The number of the command.
        seq: u64,
        /// When it fires, in milliseconds since 1970.
        due_ms: i64,
    },
    /// Cancels a timer.
    CancelTimer {
        /// The timer.
        seq: u64,
    },
    /// Starts a child run.
    StartChild(Box<StartChild>),
    /// Requests the cancellation of a child.
    CancelChild {
        /// The child.
        seq: u64,
    },
    /// Sends a signal to another run.
    SignalRun {
        /// The number of the command.
        seq: u64,
        /// The receiving run.
        run: RunId,
        /// The name of the signal.
        name: Topic,
        /// The payload.
        payload: Json,
    },
    /// A value that the code computed once and that replays must reuse.
    SideEffect {
        /// The number of the command.
        seq: u64,
        /// The value.
        value: Json,
    },
    /// An activity that ran inside the task.
    LocalActivity {
        /// The number of the command.
        seq: u64,
        /// The kind of the activity.
        name: Kind,
        /// Its result.
        result: ActivityResult,
        /// The number of attempts.
        #[serde(default)]
        attempts: u32,
    },
    /// A command that was not issued because its data is too large. It is recorded, so that a
    /// replay behaves the same whatever the limit is then.
    TooLarge {
        /// The number of the command.
        seq: u64,
        /// What is too large.
        what: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The code took the new branch of a patch.
    Patch {
        /// The patch.
        id: Topic,
    },
    /// Sets search attributes of the run.
    SearchAttributes {
        /// Names and values.
        values: BTreeMap<Topic, Json>,
    },
    /// Answers an update.
    UpdateDone {
        /// The update.
        id: String,
        /// The answer.
        result: UpdateResult,
    },
}

/// An activity to schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleActivity {
    /// The number of the command.
    pub seq: u64,
    /// The kind of the job.
    pub name: Kind,
    /// The input.
    pub input: Json,
    /// The queue, if not the worker's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// How often it is tried.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_to_close_ms: Option<u64>,
    /// How long all of it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_to_close_ms: Option<u64>,
    /// The longest time without a heartbeat of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
}

/// A child run to start. Its id is always given, so that a repeated start has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartChild {
    /// The number of the command.
    pub seq: u64,
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version it is written for.
    pub version: super::name::Version,
    /// The input.
    pub input: Json,
    /// The id of the child.
    pub run: RunId,
    /// What happens to it when the parent ends first.
    #[serde(default)]
    pub parent_close: ParentClose,
    /// Which events the parent receives.
    #[serde(default, rename = "told")]
    pub notify_parent: NotifyParent,
    /// How long it is kept after its end, if that differs from the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
}

/// What happens to a child when its parent ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClose {
    /// It is terminated.
    #[default]
    Terminate,
    /// Its cancellation is requested.
    Cancel,
    /// It continues.
    Abandon,
}

/// Which events a parent receives about its child. Each adds an entry to its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyParent {
    /// The start. A child that could not be started has ended.
    Start,
    /// The end.
    #[default]
    End,
    /// Both.
    Both,
}

impl Command {
    /// The number of the command, if its type has one. A cancellation has the number of the
    /// cancelled command.
    pub fn seq(&self) -> Option<u64> {
        Some(match self {
            Self::ScheduleActivity(activity) => activity.seq,
            Self::StartChild(child) => child.seq,
            Self::CancelActivity { seq }
            | Self::StartTimer { seq, .. }
            | Self::CancelTimer { seq }
            | Self::CancelChild { seq }
            | Self::SignalRun { seq, .. }
            | Self::SideEffect { seq, .. }
            | Self::LocalActivity { seq, .. }
            | Self::TooLarge { seq, .. } => *seq,
            Self::Patch { .. } | Self::SearchAttributes { .. } | Self::UpdateDone { .. } => return None,
        })
    }

    /// Whether code that issues `other` takes the same step. The type of a command and its target
    /// count, not its data: a longer timeout or a different spelling of the input must not stop
    /// existing runs.
    pub fn is_same_step(&self, other: &Self) -> bool {
        self.step() == other.step()
    }

    fn step(&self) -> (Discriminant<Self>, Option<u64>, &str) {
        let name = match self {
            Self::ScheduleActivity(activity) => activity.name.as_str(),
            Self::StartChild(child) => child.workflow.as_str(),
            Self::SignalRun { name, .. } => name.as_str(),
            Self::LocalActivity { name, .. } => name.as_str(),
            Self::Patch { id } => id.as_str(),
            Self::UpdateDone { id, .. } => id.as_str(),
            _ => "",
        };
        (discriminant(self), self.seq(), name)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScheduleActivity(activity) => write!(f, "schedule activity `{}`", activity.name)?,
            Self::CancelActivity { .. } => f.write_str("cancel activity")?,
            Self::StartTimer { .. } => f.write_str("start timer")?,
            Self::CancelTimer { .. } => f.write_str("cancel timer")?,
            Self::StartChild(child) => write!(f, "start child `{}`", child.workflow)?,
            Self::CancelChild { .. } => f.write_str("cancel child")?,
            Self::SignalRun { run, name, .. } => write!(f, "send signal `{name}` to run `{run}`")?,
            Self::SideEffect { .. } => f.write_str("side effect")?,
            Self::LocalActivity { name, .. } => write!(f, "local activity `{name}`")?,
            Self::TooLarge { what, size, .. } => write!(f, "not hand on {what}, of {size} bytes")?,
            Self::Patch { id } => write!(f, "patch `{id}`")?,
            Self::SearchAttributes { values } => {
                let names: Vec<_> = values.keys().map(Topic::as_str).collect();
                write!(f, "set attribute `{}`", names.join("`, `"))?;
            }
            Self::UpdateDone { id, .. } => write!(f, "answer update `{id}`")?,
        }
        self.seq().map_or(Ok(()), |seq| write!(f, " (seq {seq})"))
    }
}
