//! The queue verbs, and the rows of queues.

mod list_queues;
mod pause;
mod purge;
pub(crate) mod queue_row;
mod resume;

use async_trait::async_trait;
use tidemill_core::store::{QueueInfo, Queues};
use tidemill_core::{Error, Queue};

use crate::store::SqliteStore;
pub(crate) use queue_row::NumberedQueue;

#[async_trait]
impl Queues for SqliteStore {
    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        pause::pause(self, queue).await
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        resume::resume(self, queue).await
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        purge::purge(self, queue).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        list_queues::list_queues(self).await
    }
}
