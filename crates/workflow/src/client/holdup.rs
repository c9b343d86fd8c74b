//! What holds up what a run has asked for: a paused queue, or an activity that no worker knows.

use std::collections::HashSet;

use serde::Deserialize;
use tidemill_core::job::JobState;
use tidemill_core::store::JobInfo;
use tidemill_core::store::runs::RunInfo;
use tidemill_core::workflow::{Command, OpenCommand};
use tidemill_core::{Error, Queue, Store};

/// Of how many activities this is found out: each is a look at the store.
const MOST: usize = 20;

/// Looks for what holds up one run.
pub(super) struct Search<'a> {
    store: &'a dyn Store,
    info: &'a RunInfo,
    paused: HashSet<Queue>,
    looks: usize,
}

impl<'a> Search<'a> {
    pub(super) async fn new(store: &'a dyn Store, info: &'a RunInfo) -> Result<Self, Error> {
        let queues = store.list_queues().await?.into_iter();
        let paused = queues.filter(|queue| queue.paused).map(|queue| queue.queue).collect();
        Ok(Self { store, info, paused, looks: 0 })
    }

    /// Whether the run's own tasks are not given out.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.contains(&self.info.queue)
    }

    /// What holds up the answer to this.
    pub(super) async fn note(&mut self, open: &OpenCommand) -> Result<Option<String>, Error> {
        match &open.command {
            Command::ScheduleActivity(activity) if self.looks < MOST => {
                self.looks += 1;
                let job = self.store.get_job(&self.info.run.part(activity.seq)).await?;
                Ok(job.and_then(|job| self.waits(&job)))
            }
            // These are errands, done by whoever serves the run's own queue.
            Command::StartChild(_) | Command::SignalRun { .. } if self.is_paused() => {
                Ok(Some(paused(&self.info.queue)))
            }
            _ => Ok(None),
        }
    }

    /// Why a job is not being run.
    fn waits(&self, job: &JobInfo) -> Option<String> {
        if !matches!(job.state, JobState::Ready | JobState::Scheduled) {
            return None;
        }
        match &job.queue {
            Some(queue) if self.paused.contains(queue) => Some(paused(queue)),
            queue => last_error(job).or_else(|| {
                queue.as_ref().map(|queue| format!("no worker on queue `{}` has taken it yet", queue.name))
            }),
        }
    }
}

fn paused(queue: &Queue) -> String {
    format!("queue `{}` is paused", queue.name)
}

/// What was said last of a job that waits. If no worker knew it, that is what it says.
pub(super) fn last_error(job: &JobInfo) -> Option<String> {
    #[derive(Deserialize)]
    struct Said {
        last_error: Option<String>,
    }
    serde_json::from_slice::<Said>(&job.data).ok().and_then(|said| said.last_error)
}
