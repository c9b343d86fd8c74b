//! Verbs on jobs and queues that are safe to repeat, repeated while they get no answer.

use super::Client;
use crate::job::JobState;
use crate::name::{JobId, Queue};
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::{Cancelled, Deleted, Error};

impl Client {
    /// Cancels a job; see [`Store::cancel`](crate::Store::cancel). A job that is not there when an earlier call got no
    /// answer counts as removed by it.
    pub async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        let Answered { value, after_unknown } =
            repeat_until_answered(self.store.clock(), || self.store.cancel(job)).await?;
        Ok(match value {
            Cancelled::NotFound | Cancelled::Ended(JobState::Cancelled) if after_unknown => {
                Cancelled::Removed
            }
            cancelled => cancelled,
        })
    }

    /// Deletes a chain with everything in it: its job in whatever state, its record, its dead letter, its key.
    /// Refused while another chain waits for it. A chain that is not there when an earlier call got no answer counts as
    /// deleted by it.
    pub async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = chain.chain();
        let Answered { value, after_unknown } =
            repeat_until_answered(self.store.clock(), || self.store.delete(&chain)).await?;
        Ok(match value {
            Deleted::NotFound if after_unknown => Deleted::Yes,
            deleted => deleted,
        })
    }

    /// Stops giving out a queue's jobs.
    pub async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        until_answered(self.store.clock(), || self.store.pause(queue)).await
    }

    /// Gives a queue's jobs out again.
    pub async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        until_answered(self.store.clock(), || self.store.resume(queue)).await
    }

    /// Deletes a queue's waiting jobs. Says how many; `after_unknown` means that an earlier call, which got no answer, may
    /// have deleted more.
    pub async fn purge(&self, queue: &Queue) -> Result<Answered<u64>, Error> {
        repeat_until_answered(self.store.clock(), || self.store.purge(queue)).await
    }
}
