//! What a run's code asks for.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};

use serde::{Deserialize, Serialize};

use super::event::{ActivityResult, UpdateResult};
use super::json::Json;
use super::name::{RunId, Topic, WorkflowName};
use super::retry::RetryPolicy;
use crate::name::{Kind, QueueName};

/// One thing the code asked for. `seq` is one counter over all commands of a run that have one; an event that
/// answers a command carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Runs a job and tells the run how it ended.
    ScheduleActivity(Box<ScheduleActivity>),
    /// Nobody waits for the activity any more.
    CancelActivity {
        /// The activity.
        seq: u64,
    },
    /// Tells the run when a time has come.
    StartTimer {
        /// Its number.
        seq: u64,
        /// When, in milliseconds since 1970.
        due_ms: i64,
    },
    /// Nobody waits for the timer any more.
    CancelTimer {
        /// The timer.
        seq: u64,
    },
    /// Starts another run.
    StartChild(Box<StartChild>),
    /// Asks a child to end.
    CancelChild {
        /// The child.
        seq: u64,
    },
    /// Sends a signal to another run.
    SignalRun {
        /// Its number.
        seq: u64,
        /// To whom.
        run: RunId,
        /// What it says.
        name: Topic,
        /// With what.
        payload: Json,
    },
    /// A value that the code computed once and must not compute again.
    SideEffect {
        /// Its number.
        seq: u64,
        /// The value.
        value: Json,
    },
    /// An activity that ran inside the task.
    LocalActivity {
        /// Its number.
        seq: u64,
        /// What ran.
        name: Kind,
        /// How it ended.
        result: ActivityResult,
        /// How many attempts it took.
        #[serde(default)]
        attempts: u32,
    },
    /// Something that was not asked for, because what it was to be given is too large. Noted down, so that a replay goes
    /// the same way whatever is allowed by then.
    TooLarge {
        /// Its number.
        seq: u64,
        /// What is too large.
        what: String,
        /// How many bytes it has.
        size: u64,
        /// How many were allowed.
        limit: u64,
    },
    /// The code took the new way at this point.
    Patch {
        /// Which change.
        id: Topic,
    },
    /// Sets what the run can be found by.
    SearchAttributes {
        /// Names and values.
        values: BTreeMap<Topic, Json>,
    },
    /// Answers an update.
    UpdateDone {
        /// Which.
        id: String,
        /// The answer.
        result: UpdateResult,
    },
}

/// An activity to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleActivity {
    /// Its number.
    pub seq: u64,
    /// What to run: the kind of the job.
    pub name: Kind,
    /// With what.
    pub input: Json,
    /// On which queue, if not the worker's default.
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
    /// How long an attempt may be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
}

/// A child to be started. Its id is always said: starting it twice is starting it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartChild {
    /// Its number.
    pub seq: u64,
    /// Its type.
    pub workflow: WorkflowName,
    /// The version it is written for.
    pub version: super::name::Version,
    /// What it is given.
    pub input: Json,
    /// Its identity.
    pub run: RunId,
    /// What becomes of it when the parent ends first.
    #[serde(default)]
    pub parent_close: ParentClose,
    /// What the parent wants to hear of it.
    #[serde(default, rename = "told")]
    pub notify_parent: NotifyParent,
    /// How long it is kept when it has ended, if its parent is not kept as long as any other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
}

/// What becomes of a child when its parent ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClose {
    /// It ends at once.
    #[default]
    Terminate,
    /// It is asked to end.
    Cancel,
    /// It goes on.
    Abandon,
}

/// What a parent is told of its child. Each costs it an entry in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyParent {
    /// That it exists. A child that could not be started has ended.
    Start,
    /// How it ended.
    #[default]
    End,
    /// Both.
    Both,
}

impl Command {
    /// The number of the command, if its kind has one. A cancel has that of what it cancels.
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

    /// Whether code that asked for `other` has done the same thing. What is asked for counts, not with what:
    /// a longer timeout or a differently written input must not stop the runs that are under way.
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
