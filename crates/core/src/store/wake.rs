//! Wake-ups: how an idle process learns that something happened. A hint, never the truth.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;

use futures_util::Stream;

use crate::name::{Delivery, InvalidName, JobId, Queue, QueueName};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A queue has work, or was paused or resumed: look at it.
    Queue(Queue),
    /// A queue's next scheduled job is due earlier than before.
    Sooner(Queue),
    /// A running job is to be cancelled.
    Cancel(JobId),
    /// A job whose record is kept has ended.
    Finished(JobId),
    /// Something may have been missed: look at everything.
    Everything,
}

/// A stream of wake-ups.
pub type Wakes = Pin<Box<dyn Stream<Item = Wake> + Send>>;

impl fmt::Display for Wake {
    /// As it travels through a channel: a word, and what it is about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "queue {} {}", queue.delivery, queue.name),
            Self::Sooner(queue) => write!(f, "sooner {} {}", queue.delivery, queue.name),
            Self::Cancel(job) => write!(f, "cancel {job}"),
            Self::Finished(job) => write!(f, "finished {job}"),
            Self::Everything => f.write_str("everything"),
        }
    }
}

/// A message on the wake channel that says nothing we know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a wake-up")]
pub struct NotAWake;

impl From<InvalidName> for NotAWake {
    fn from(_: InvalidName) -> Self {
        Self
    }
}

impl FromStr for Wake {
    type Err = NotAWake;
    fn from_str(text: &str) -> Result<Self, NotAWake> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let queue = || -> Result<Queue, NotAWake> {
            let (delivery, name) = rest.split_once(' ').ok_or(NotAWake)?;
            Ok(Queue { name: QueueName::new(name)?, delivery: delivery.parse::<Delivery>()? })
        };
        Ok(match word {
            "queue" => Self::Queue(queue()?),
            "sooner" => Self::Sooner(queue()?),
            "cancel" => Self::Cancel(JobId::new(rest)?),
            "finished" => Self::Finished(JobId::new(rest)?),
            "everything" => Self::Everything,
            _ => return Err(NotAWake),
        })
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
            Wake::Queue(queue.clone()),
            Wake::Sooner(queue),
            Wake::Cancel(job.clone()),
            Wake::Finished(job),
            Wake::Everything,
        ];
        for wake in wakes {
            assert_eq!(wake.to_string().parse(), Ok(wake));
        }
        for noise in ["", "queue", "queue mail", "cancel ", "cancel a b", "{}"] {
            assert!(noise.parse::<Wake>().is_err(), "{noise:?}");
        }
    }
}
