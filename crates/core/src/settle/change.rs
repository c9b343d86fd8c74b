//! The changes that a settlement can apply to a job.

use std::time::Duration;

use bytes::Bytes;

use crate::dead_letter::DeadLetter;
use crate::job::{IllegalTransition, JobEvent, JobState};
use crate::name::Queue;
use crate::store::runs::{CommitParams, Delivery};
use crate::store::{JobRecord, NewJob};

/// What a store does with a claimed job. Each of the six changes releases the lease.
#[derive(Debug, Clone)]
pub enum Change {
    /// Removes the job; stores the record, if there is one.
    Finish(Option<JobRecord>),
    /// Replaces the job with the next step of its chain.
    Continue(Box<NextJob>),
    /// Removes the task of a run and applies its commit.
    Commit(Box<CommitParams>),
    /// Removes the job and delivers an event to a run. A run that has ended receives nothing.
    Deliver(Box<Delivery>),
    /// Returns the job to its queue with this envelope.
    Requeue {
        /// The envelope of the next attempt.
        envelope: Bytes,
        /// The delay until it is ready; zero means at once.
        delay: Duration,
    },
    /// Moves the job to the dead letters.
    Bury(DeadLetter),
}

/// The next job of a chain.
#[derive(Debug, Clone)]
pub struct NextJob {
    /// Its queue.
    pub queue: Queue,
    /// The job; its id is that of the chain with the next step number.
    pub job: NewJob,
}

impl Change {
    /// The event of the job state machine that this change is.
    pub fn event(&self) -> JobEvent {
        match self {
            Self::Finish(Some(JobRecord { state: JobState::Cancelled, .. })) => JobEvent::Cancelled,
            Self::Finish(_) | Self::Continue(_) | Self::Commit(_) | Self::Deliver(_) => JobEvent::Finished,
            Self::Requeue { delay, .. } if delay.is_zero() => JobEvent::Requeued,
            Self::Requeue { .. } => JobEvent::Postponed,
            Self::Bury(_) => JobEvent::Buried,
        }
    }

    /// The state of a running job after this change.
    ///
    /// # Errors
    /// [`IllegalTransition`] never, for the changes that [`decide`](super::decide) returns.
    pub fn state(&self) -> Result<JobState, IllegalTransition> {
        JobState::Running.next(self.event())
    }
}
