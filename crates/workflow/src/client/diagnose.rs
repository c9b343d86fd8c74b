//! `diagnose`: finds out why a run makes no progress.

use std::fmt;

use tidemill_core::Timestamp;
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::store::runs::{EntryKind, RunInfo};
use tidemill_core::workflow::{
    AwaitedMessage, Command, Entry, OpenCommand, RunStatus, awaited_messages, open_commands,
};

use super::error::RunError;
use super::explain::{WaitExplainer, last_error};
use super::handle::RunHandle;
use crate::replay::OpenWait;
use crate::task::read_all;

/// The state of a run, and why it makes no progress.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The run.
    pub info: RunInfo,
    /// Whether it makes progress, and if not, why.
    pub progress: RunProgress,
    /// What its journal says it waits for, the oldest first: commands without a result and, unless
    /// it has new events or is blocked, signals and updates. Only the code knows waits for a cancel
    /// request and for spawned tasks: see [`RunHandle::waits`].
    pub waits: Vec<OpenWait>,
}

/// Whether a run makes progress, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProgress {
    /// It has ended.
    Ended(RunStatus),
    /// It waits for an event.
    Waiting,
    /// Its task is ready, and no worker has claimed it yet. If that lasts, no worker serves its
    /// queue.
    Queued {
        /// The queue of its task.
        queue: String,
    },
    /// Its task is ready, and the task's queue is paused.
    Paused {
        /// The paused queue.
        queue: String,
    },
    /// A worker is running its task.
    Running {
        /// The worker.
        by: String,
    },
    /// It is blocked: no worker has code for its version, or code and journal diverge, or the code
    /// does something forbidden.
    Blocked {
        /// The full report.
        reason: String,
        /// When its task is retried; none if that is now.
        until: Option<Timestamp>,
    },
    /// It has new events but no task: another program removed it. The next message to the run
    /// creates a new task.
    TaskMissing,
    /// Its task is a dead letter, because workers died while running it. Redrive it to continue.
    Dead {
        /// The last error.
        reason: String,
    },
}

impl<O> RunHandle<O> {
    /// Finds out why the run makes no progress, using only the store.
    ///
    /// # Errors
    /// [`RunError::NotFound`] if the run does not exist; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn diagnose(&self) -> Result<Diagnosis, RunError> {
        let (info, store) = (self.info().await?, self.store());
        let task = store.get_job(&self.run.task()).await?;
        let all = read_all(store, &self.run).await?;
        let has_new_events =
            all.iter().any(|(at, stored)| *at > info.cursor && stored.kind != EntryKind::Commit);
        let why = match task {
            _ if info.status.is_closed() => RunProgress::Ended(info.status),
            // An event that arrived between the two reads has created a task.
            None if has_new_events => match store.get_job(&self.run.task()).await? {
                None => RunProgress::TaskMissing,
                task => task_progress(task),
            },
            task => task_progress(task),
        };
        let entries: Vec<_> = all.iter().filter_map(|(_, stored)| Entry::read(&stored.bytes).ok()).collect();
        let (open, mut search, mut waits) =
            (open_commands(&entries), WaitExplainer::new(store, &info).await?, Vec::new());
        for open in open {
            let note = search.explain(&open).await?;
            waits.push(OpenWait { note, ..open_wait(open) });
        }
        // A run with new events may no longer wait for them.
        if why == RunProgress::Waiting {
            waits.extend(awaited_messages(&entries).into_iter().map(message_wait));
            // Stable: commands of one commit keep their order.
            waits.sort_by_key(|wait| wait.since);
        }
        let why = match why {
            RunProgress::Queued { queue } if search.is_paused() => RunProgress::Paused { queue },
            why => why,
        };
        Ok(Diagnosis { info, progress: why, waits })
    }
}

fn task_progress(task: Option<JobInfo>) -> RunProgress {
    let Some(task) = task else { return RunProgress::Waiting };
    let reason = last_error(&task);
    match (task.state, reason) {
        (JobState::Running, None) => RunProgress::Running { by: task.held_by.unwrap_or_default() },
        (JobState::Dead, reason) => RunProgress::Dead { reason: reason.unwrap_or_default() },
        // The last error is valid until the task commits.
        (JobState::Ready | JobState::Scheduled | JobState::Blocked | JobState::Running, Some(reason)) => {
            RunProgress::Blocked { reason, until: task.due }
        }
        (JobState::Ready | JobState::Scheduled | JobState::Blocked, None) => {
            let queue = task.queue.map(|queue| queue.name.as_str().to_owned());
            RunProgress::Queued { queue: queue.unwrap_or_default() }
        }
        (JobState::Done | JobState::Cancelled, _) => RunProgress::Waiting,
    }
}

fn open_wait(open: OpenCommand) -> OpenWait {
    let what = match &open.command {
        Command::ScheduleActivity(activity) => format!("activity `{}`", activity.name),
        Command::StartTimer { due_ms, .. } => format!("timer at {}", Timestamp(*due_ms)),
        Command::StartChild(child) => format!("child workflow `{}` (run `{}`)", child.workflow, child.run),
        Command::SignalRun { name, run, .. } => format!("sending signal `{name}` to run `{run}`"),
        other => other.to_string(),
    };
    OpenWait { what, seq: open.command.seq(), since: open.since, note: None }
}

fn message_wait((message, since): (AwaitedMessage, Timestamp)) -> OpenWait {
    OpenWait { what: message.to_string(), seq: None, since, note: None }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.progress {
            RunProgress::Ended(status) => return write!(f, "it has ended: {status}"),
            RunProgress::Waiting => f.write_str("it waits")?,
            RunProgress::Queued { queue } => write!(f, "it waits for a worker on queue `{queue}`")?,
            RunProgress::Paused { queue } => write!(f, "its queue `{queue}` is paused")?,
            RunProgress::Running { by } => write!(f, "worker {by} is carrying it on")?,
            RunProgress::Blocked { reason, .. } => write!(f, "it is blocked: {reason}")?,
            RunProgress::TaskMissing => {
                f.write_str("its task was taken away: the next signal makes it anew")?
            }
            RunProgress::Dead { reason } => write!(f, "its task is in the dead letters: {reason}")?,
        }
        for wait in &self.waits {
            write!(f, "\n  for {} since {}", wait.what, wait.since)?;
            wait.note.iter().try_for_each(|note| write!(f, ": {note}"))?;
        }
        Ok(())
    }
}
