//! Explanations for open commands: a paused queue, or an activity that no worker knows.

use std::collections::HashSet;

use serde::Deserialize;
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::store::runs::RunInfo;
use tidemill_core::workflow::{Command, OpenCommand};
use tidemill_core::{Error, Queue, Store};

/// For how many activities the job is looked up. Each takes a round trip to the store.
const MAX_JOB_LOOKUPS: usize = 20;

/// Explains what delays the open commands of one run.
pub(super) struct WaitExplainer<'a> {
    store: &'a dyn Store,
    info: &'a RunInfo,
    paused: HashSet<Queue>,
    lookups: usize,
}

impl<'a> WaitExplainer<'a> {
    pub(super) async fn new(store: &'a dyn Store, info: &'a RunInfo) -> Result<Self, Error> {
        let queues = store.list_queues().await?.into_iter();
        let paused = queues.filter(|queue| queue.paused).map(|queue| queue.queue).collect();
        Ok(Self { store, info, paused, lookups: 0 })
    }

    /// Whether the queue of the run's tasks is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.contains(&self.info.queue)
    }

    /// What delays the result of a command.
    pub(super) async fn explain(&mut self, open: &OpenCommand) -> Result<Option<String>, Error> {
        match &open.command {
            Command::ScheduleActivity(activity) if self.lookups < MAX_JOB_LOOKUPS => {
                self.lookups += 1;
                let job = self.store.get_job(&self.info.run.part(activity.seq)).await?;
                Ok(job.and_then(|job| self.explain_job(&job)))
            }
            // These are remote commands: jobs on the run's own queue.
            Command::StartChild(_) | Command::SignalRun { .. } if self.is_paused() => {
                Ok(Some(paused_note(&self.info.queue)))
            }
            _ => Ok(None),
        }
    }

    /// Why a job is not running.
    fn explain_job(&self, job: &JobInfo) -> Option<String> {
        if !matches!(job.state, JobState::Ready | JobState::Scheduled) {
            return None;
        }
        match &job.queue {
            Some(queue) if self.paused.contains(queue) => Some(paused_note(queue)),
            queue => last_error(job).or_else(|| {
                queue.as_ref().map(|queue| format!("no worker on queue `{}` has taken it yet", queue.name))
            }),
        }
    }
}

fn paused_note(queue: &Queue) -> String {
    format!("queue `{}` is paused", queue.name)
}

/// The last error of a waiting job, for example that no worker knows its kind.
pub(super) fn last_error(job: &JobInfo) -> Option<String> {
    #[derive(Deserialize)]
    struct LastError {
        last_error: Option<String>,
    }
    serde_json::from_slice::<LastError>(&job.data).ok().and_then(|parsed| parsed.last_error)
}
