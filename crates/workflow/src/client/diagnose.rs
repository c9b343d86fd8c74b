//! Why a run is not moving.

use std::fmt;

use tidemill_core::Timestamp;
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::store::runs::{EntryKind, RunInfo};
use tidemill_core::workflow::{Command, Entry, OpenCommand, RunStatus, open_commands};

use super::error::RunError;
use super::handle::RunHandle;
use super::holdup::{Search, last_error};
use crate::machine::Waiting;
use crate::wire::read_all;

/// Where a run stands, and why it does not move.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The run.
    pub info: RunInfo,
    /// Why it does not move.
    pub why: Why,
    /// What it has asked for and got no answer to, the oldest first. What else its code waits for, only its code knows:
    /// [`RunHandle::waits`].
    pub waits: Vec<Waiting>,
}

/// Why a run does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It has ended.
    Ended(RunStatus),
    /// It waits for something to happen, and has nothing to do before.
    Waits,
    /// It has something to do, and no worker has taken it yet. If that lasts, none serves its queue.
    Queued {
        /// Where it waits for a worker.
        queue: String,
    },
    /// It has something to do, and its queue gives out nothing until somebody resumes it.
    Paused {
        /// Which.
        queue: String,
    },
    /// A worker is carrying it on right now.
    Moves {
        /// Which.
        by: String,
    },
    /// No worker here can carry it on: none knows its version, or its code and its journal do not agree, or its code
    /// does what it must not.
    Blocked {
        /// The whole report.
        reason: String,
        /// When it is tried again; none if that is now.
        until: Option<Timestamp>,
    },
    /// It has something to do, and nothing that could be taken: another program took its task away. The next thing that is
    /// said to it makes a task anew.
    Stranded,
    /// Workers died over it, so often that its task is in the dead letters until somebody redrives it.
    Dead {
        /// What was said last.
        reason: String,
    },
}

impl<O> RunHandle<O> {
    /// Finds out why the run is not moving, from what is in the store alone.
    pub async fn diagnose(&self) -> Result<Diagnosis, RunError> {
        let (info, store) = (self.info().await?, self.store());
        let task = store.get_job(&self.run.task()).await?;
        let all = read_all(store, &self.run).await?;
        let has_news = all.iter().any(|(at, written)| *at > info.cursor && written.kind != EntryKind::Commit);
        let why = match task {
            _ if info.status.is_closed() => Why::Ended(info.status),
            // What came between the two looks has made a task.
            None if has_news => match store.get_job(&self.run.task()).await? {
                None => Why::Stranded,
                task => why(task),
            },
            task => why(task),
        };
        let entries: Vec<_> =
            all.iter().filter_map(|(_, written)| Entry::read(&written.entry).ok()).collect();
        let (open, mut search, mut waits) =
            (open_commands(&entries), Search::new(store, &info).await?, Vec::new());
        for open in open {
            let note = search.note(&open).await?;
            waits.push(Waiting { note, ..waiting(open) });
        }
        let why = match why {
            Why::Queued { queue } if search.is_paused() => Why::Paused { queue },
            why => why,
        };
        Ok(Diagnosis { info, why, waits })
    }
}

fn why(task: Option<JobInfo>) -> Why {
    let Some(task) = task else { return Why::Waits };
    let reason = last_error(&task);
    match (task.state, reason) {
        (JobState::Running, None) => Why::Moves { by: task.held_by.unwrap_or_default() },
        (JobState::Dead, reason) => Why::Dead { reason: reason.unwrap_or_default() },
        // What was said last is how it is until it has got on.
        (JobState::Ready | JobState::Scheduled | JobState::Blocked | JobState::Running, Some(reason)) => {
            Why::Blocked { reason, until: task.due }
        }
        (JobState::Ready | JobState::Scheduled | JobState::Blocked, None) => {
            let queue = task.queue.map(|queue| queue.name.as_str().to_owned());
            Why::Queued { queue: queue.unwrap_or_default() }
        }
        (JobState::Done | JobState::Cancelled, _) => Why::Waits,
    }
}

fn waiting(open: OpenCommand) -> Waiting {
    let what = match &open.command {
        Command::ScheduleActivity(activity) => format!("activity `{}`", activity.name),
        Command::StartTimer { due_ms, .. } => format!("timer at {}", Timestamp(*due_ms)),
        Command::StartChild(child) => format!("child workflow `{}` (run `{}`)", child.workflow, child.run),
        Command::SignalRun { name, run, .. } => format!("sending signal `{name}` to run `{run}`"),
        other => other.to_string(),
    };
    Waiting { what, seq: open.command.seq(), since: open.since, note: None }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Ended(status) => return write!(f, "it has ended: {status}"),
            Why::Waits => f.write_str("it waits")?,
            Why::Queued { queue } => write!(f, "it waits for a worker on queue `{queue}`")?,
            Why::Paused { queue } => write!(f, "its queue `{queue}` is paused")?,
            Why::Moves { by } => write!(f, "worker {by} is carrying it on")?,
            Why::Blocked { reason, .. } => write!(f, "it is blocked: {reason}")?,
            Why::Stranded => f.write_str("its task was taken away: the next signal makes it anew")?,
            Why::Dead { reason } => write!(f, "its task is in the dead letters: {reason}")?,
        }
        for wait in &self.waits {
            write!(f, "\n  for {} since {}", wait.what, wait.since)?;
            wait.note.iter().try_for_each(|note| write!(f, ": {note}"))?;
        }
        Ok(())
    }
}
