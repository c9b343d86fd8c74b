//! The handle of a queue: pause, resume, purge, counts and listings.

use super::{Client, DeadLetters};
use crate::job::JobState;
use crate::name::{Guarantee, Queue, QueueName};
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::{Error, JobInfo, ListJobsParams, Page, QueueInfo};

/// A queue, which need not exist yet. Created by [`Client::queue`].
///
/// The name is checked by each method, so an invalid name is an [`Error::InvalidName`] of the first
/// call.
#[derive(Debug, Clone)]
pub struct QueueHandle {
    client: Client,
    name: String,
    guarantee: Guarantee,
}

/// The result of [`QueueHandle::purge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// The number of deleted jobs.
    pub jobs: u64,
    /// Whether more may have been deleted: by an earlier try whose answer was lost.
    pub maybe_more: bool,
}

/// Which page of a list to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageParams {
    pub(super) cursor: Option<String>,
    pub(super) limit: usize,
}

impl PageParams {
    /// The first page, with at most `limit` items.
    pub fn first(limit: usize) -> Self {
        Self { cursor: None, limit }
    }

    /// The page that starts at [`Page::next`] of the page before it.
    pub fn at(cursor: String, limit: usize) -> Self {
        Self { cursor: Some(cursor), limit }
    }
}

impl Client {
    /// A handle to the at-least-once queue with this name. It need not exist yet.
    ///
    /// ```
    /// # async fn pause(client: tidemill_core::Client) -> Result<(), tidemill_core::Error> {
    /// let mail = client.queue("mail");
    /// mail.pause().await?;
    /// let waiting = mail.info().await?.map_or(0, |info| info.ready);
    /// # let _ = waiting;
    /// mail.resume().await
    /// # }
    /// ```
    pub fn queue(&self, name: &str) -> QueueHandle {
        QueueHandle { client: self.clone(), name: name.to_owned(), guarantee: Guarantee::AtLeastOnce }
    }

    /// All queues with their counts. On Redis, a queue that only other programs fill is one of them
    /// after a worker has served it, or after [`discover_queues`](Self::discover_queues).
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        until_answered(self.store.clock(), || self.store.list_queues()).await
    }

    /// Looks for queues that only other programs have filled, and registers them. Returns those it
    /// found. On Redis it looks at up to a million keys of each shard (`SCAN`); the SQL stores know
    /// every queue.
    ///
    /// ```
    /// # async fn list(client: tidemill_core::Client) -> Result<(), tidemill_core::Error> {
    /// client.discover_queues().await?;
    /// let queues = client.queues().await?;
    /// # let _ = queues;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's error. A user without the right to scan or to register finds none.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have registered queues.
    pub async fn discover_queues(&self) -> Result<Vec<Queue>, Error> {
        until_answered(self.store.clock(), || self.store.discover_queues()).await
    }
}

impl QueueHandle {
    /// Selects the queue with this name and guarantee; by default the at-least-once one.
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.guarantee = guarantee;
        self
    }

    /// The dead letters of this queue.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(self.clone())
    }

    /// Pauses the queue for all processes: its jobs are not claimed. Running jobs continue.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the store's error. After [`Error::Unanswered`] it may be paused.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have paused it.
    pub async fn pause(&self) -> Result<(), Error> {
        let (store, queue) = (&self.client.store, self.queue()?);
        until_answered(store.clock(), || store.pause(&queue)).await
    }

    /// Resumes the queue, if it is paused.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have resumed it.
    pub async fn resume(&self) -> Result<(), Error> {
        let (store, queue) = (&self.client.store, self.queue()?);
        until_answered(store.clock(), || store.resume(&queue)).await
    }

    /// Deletes the waiting jobs: scheduled, blocked and ready ones. Running and dead jobs stay, and
    /// so do tasks of workflow runs. A run that waits for a deleted activity is notified.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the store's error. After [`Error::Unanswered`] jobs may have been
    /// deleted.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have deleted jobs.
    pub async fn purge(&self) -> Result<Purged, Error> {
        let (store, queue) = (&self.client.store, self.queue()?);
        let Answered { value, after_unknown } =
            repeat_until_answered(store.clock(), || store.purge(&queue)).await?;
        Ok(Purged { jobs: value, maybe_more: after_unknown })
    }

    /// The counts of the queue and whether it is paused; `None` if the store does not know it.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn info(&self) -> Result<Option<QueueInfo>, Error> {
        let queue = self.queue()?;
        Ok(self.client.queues().await?.into_iter().find(|info| info.queue == queue))
    }

    /// A page of its jobs in one state: blocked, scheduled, ready, running or dead.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn jobs(&self, state: JobState, page: PageParams) -> Result<Page<JobInfo>, Error> {
        let (store, queue, limit) = (&self.client.store, self.queue()?, page.limit);
        let list = || {
            let cursor = page.cursor.clone();
            store.list_jobs(ListJobsParams { queue: &queue, state, cursor, limit })
        };
        until_answered(store.clock(), list).await
    }

    /// The queue, with its name checked.
    pub(super) fn queue(&self) -> Result<Queue, Error> {
        Ok(Queue { name: QueueName::new(&self.name)?, guarantee: self.guarantee })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}
