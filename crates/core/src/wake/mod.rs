//! Wake-ups: messages by which an idle process learns that something may have changed.
//!
//! A wake-up is a hint. Any client of a server can publish one, so its receiver asks the store, and
//! only the store's answer changes state.

mod bus;
mod completion;
mod pending;
mod transport;
mod wait_queue;
mod wake_set;

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;

use futures_util::Stream;

pub use bus::{Bus, Interest, ListenGuard};
pub use completion::CompletionWatch;
pub use pending::{Pending, SendTiming, WakeBatch};
pub use transport::{NoTransport, Transport};
pub use wait_queue::{PollInterval, PollPermit, Polled, WaitQueues};
pub use wake_set::WakeSet;

use crate::fleet::{SessionId, WorkerKey, WorkerKind};
use crate::name::{Guarantee, InvalidName, JobId, Queue, QueueName};

/// What may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wake {
    /// A queue has work: up to `jobs` waiting claims should poll it. [`Wake::all_waiters`] makes
    /// all of them poll.
    Queue {
        /// The queue.
        queue: Queue,
        /// About how many jobs it has more than before.
        jobs: usize,
    },
    /// The next scheduled job of a queue is due earlier than before.
    DueEarlier(Queue),
    /// A running job may have been cancelled: its worker should extend the lease to find out.
    Cancel(JobId),
    /// The lease of a running job may be lost: its worker should extend it to find out.
    LeaseLost(JobId),
    /// A job that a caller may wait for has ended: it left a record, died, was removed, or was lost
    /// with its worker.
    Finished(JobId),
    /// A fleet worker was ordered to drain or got its last session, or one of its sessions ended.
    Worker(WorkerKey),
    /// Workers of this kind have free capacity: waiting clients should call `lease` again.
    Capacity(WorkerKind),
    /// A session may have to be closed, or another process may have taken it over: its holder
    /// should attach it to find out.
    Session(SessionId),
    /// Messages may have been missed: check everything.
    Everything,
}

impl Wake {
    /// A queue was paused or resumed: all waiting claims should check it.
    pub fn all_waiters(queue: Queue) -> Self {
        Self::Queue { queue, jobs: usize::MAX }
    }
}

/// A stream of wake-ups.
pub type WakeStream = Pin<Box<dyn Stream<Item = Wake> + Send>>;

impl fmt::Display for Wake {
    /// The text on the channel: a word and its subject.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue { queue, jobs } => write!(f, "queue {} {} {jobs}", queue.guarantee, queue.name),
            Self::DueEarlier(queue) => write!(f, "sooner {} {}", queue.guarantee, queue.name),
            Self::Cancel(job) => write!(f, "cancel {job}"),
            Self::LeaseLost(job) => write!(f, "lost {job}"),
            Self::Finished(job) => write!(f, "finished {job}"),
            Self::Worker(member) => write!(f, "member {member}"),
            Self::Capacity(kind) => write!(f, "places {kind}"),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Everything => f.write_str("everything"),
        }
    }
}

/// The error for a message that is not a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a wake-up")]
pub struct ParseWakeError;

impl From<InvalidName> for ParseWakeError {
    fn from(_: InvalidName) -> Self {
        Self
    }
}

impl FromStr for Wake {
    type Err = ParseWakeError;
    fn from_str(text: &str) -> Result<Self, ParseWakeError> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match word {
            "queue" => read_queue(rest)?,
            "sooner" => Self::DueEarlier(queue(rest)?),
            "cancel" => Self::Cancel(JobId::new(rest)?),
            "lost" => Self::LeaseLost(JobId::new(rest)?),
            "finished" => Self::Finished(JobId::new(rest)?),
            "member" => Self::Worker(rest.parse()?),
            "places" => Self::Capacity(WorkerKind::new(rest)?),
            "session" => Self::Session(SessionId::new(rest)?),
            "everything" => Self::Everything,
            _ => return Err(ParseWakeError),
        })
    }
}

fn queue(text: &str) -> Result<Queue, ParseWakeError> {
    let (guarantee, name) = text.split_once(' ').ok_or(ParseWakeError)?;
    Ok(Queue { name: QueueName::new(name)?, guarantee: guarantee.parse::<Guarantee>()? })
}

/// Parses a queue and a count. Earlier versions sent no count; then all waiters are meant.
fn read_queue(text: &str) -> Result<Wake, ParseWakeError> {
    match text.rsplit_once(' ') {
        Some((text, jobs)) if text.contains(' ') => {
            Ok(Wake::Queue { queue: queue(text)?, jobs: jobs.parse().map_err(|_| ParseWakeError)? })
        }
        _ => Ok(Wake::all_waiters(queue(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wake_reads_back_and_noise_does_not() {
        let queue = Queue::at_most_once(QueueName::new("mail").unwrap());
        let job = JobId::new("a").unwrap();
        let wakes = [
            Wake::Queue { queue: queue.clone(), jobs: 3 },
            Wake::all_waiters(queue.clone()),
            Wake::DueEarlier(queue),
            Wake::Cancel(job.clone()),
            Wake::LeaseLost(job.clone()),
            Wake::Finished(job),
            Wake::Worker("chromium:a".parse().unwrap()),
            Wake::Capacity(WorkerKind::jobs()),
            Wake::Session(SessionId::generate()),
            Wake::Everything,
        ];
        for wake in wakes {
            assert_eq!(wake.to_string().parse(), Ok(wake));
        }
        let noises = ["", "queue", "queue mail", "queue at_most_once mail x", "cancel ", "cancel a b", "{}"];
        for noise in noises {
            assert!(noise.parse::<Wake>().is_err(), "{noise:?}");
        }
    }

    #[test]
    fn a_queue_without_a_count_calls_everyone() {
        let queue = Queue::at_most_once(QueueName::new("mail").unwrap());
        assert_eq!("queue at_most_once mail".parse(), Ok(Wake::all_waiters(queue)));
    }
}
