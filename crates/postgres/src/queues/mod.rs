//! The queue verbs.

mod list_queues;
mod pause;
mod purge;
mod resume;

use async_trait::async_trait;
use tidemill_core::store::{QueueInfo, Queues};
use tidemill_core::{Error, Queue};

use crate::store::PostgresStore;

#[async_trait]
impl Queues for PostgresStore {
    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.announced(self.inner.pause(queue).await)
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.announced(self.inner.resume(queue).await)
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.announced(self.inner.purge(queue).await)
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.inner.list_queues().await
    }
}
