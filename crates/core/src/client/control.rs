//! Operations on jobs and queues that are safe to repeat; they are repeated while the store does
//! not answer.

use super::Client;
use crate::job::JobState;
use crate::name::{JobId, Queue};
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::{Cancelled, Deleted, Error};

impl Client {
    /// Cancels a job; see [`Store::cancel`](crate::Store::cancel). If an earlier call got no answer
    /// and the job is gone, it counts as removed by that call.
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

    /// Deletes a chain with its job in any state, its record, its dead letter and its key, unless
    /// another job waits for it. If an earlier call got no answer and the chain is gone, it counts
    /// as deleted by that call.
    pub async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = chain.chain();
        let Answered { value, after_unknown } =
            repeat_until_answered(self.store.clock(), || self.store.delete(&chain)).await?;
        Ok(match value {
            Deleted::NotFound if after_unknown => Deleted::Yes,
            deleted => deleted,
        })
    }

    /// Pauses a queue: its jobs are not claimed.
    pub async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        until_answered(self.store.clock(), || self.store.pause(queue)).await
    }

    /// Resumes a paused queue.
    pub async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        until_answered(self.store.clock(), || self.store.resume(queue)).await
    }

    /// Deletes the waiting jobs of a queue and returns their number. `after_unknown` means that an
    /// earlier call without an answer may have deleted more.
    pub async fn purge(&self, queue: &Queue) -> Result<Answered<u64>, Error> {
        repeat_until_answered(self.store.clock(), || self.store.purge(queue)).await
    }
}
