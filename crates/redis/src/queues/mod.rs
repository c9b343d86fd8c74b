//! The queue verbs, one file each.

mod discover_queues;
mod list_queues;
mod pause;
mod purge;
mod register;
mod resume;

use async_trait::async_trait;
use tidemill_core::store::{QueueInfo, Queues};
use tidemill_core::{Error, Queue};

use crate::store::RedisStore;

#[async_trait]
impl Queues for RedisStore {
    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        self.register(queues).await
    }

    async fn discover_queues(&self) -> Result<Vec<Queue>, Error> {
        self.discover_queues().await
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.pause_queue(queue).await
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.resume_queue(queue).await
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.purge_queue(queue).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.queue_infos().await
    }
}
