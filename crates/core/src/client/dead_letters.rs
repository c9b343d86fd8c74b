//! The dead letters of a queue: list, redrive, drop.

use super::{Client, PageParams, QueueHandle};
use crate::dead_letter::DeadLetter;
use crate::dead_letter::redrive::{self, DeadLetterFilter};
use crate::job::JobState;
use crate::name::Guarantee;
use crate::store::{Error, Page};

/// The dead letters of one queue. Created by [`Client::dead_letters`].
#[derive(Debug, Clone)]
pub struct DeadLetters {
    queue: QueueHandle,
}

impl Client {
    /// The dead letters of the at-least-once queue with this name.
    ///
    /// ```
    /// # use tidemill_core::DeadLetterFilter;
    /// # async fn redrive(client: tidemill_core::Client) -> Result<(), tidemill_core::Error> {
    /// let refused = DeadLetterFilter::all().error("connection refused");
    /// let moved = client.dead_letters("mail").redrive(&refused).await?;
    /// # let _ = moved;
    /// # Ok(())
    /// # }
    /// ```
    pub fn dead_letters(&self, queue: &str) -> DeadLetters {
        self.queue(queue).dead_letters()
    }
}

impl DeadLetters {
    pub(super) fn new(queue: QueueHandle) -> Self {
        Self { queue }
    }

    /// Selects the queue with this guarantee; by default the at-least-once one.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { queue: self.queue.guarantee(guarantee) }
    }

    /// The letters that match `filter` among those of a page, oldest first. A page may contain
    /// fewer items than its limit although there are more: see [`Page::next`]. Letters that the
    /// filter names by id are all in the first page.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn list(&self, filter: &DeadLetterFilter, page: PageParams) -> Result<Page<DeadLetter>, Error> {
        let (store, queue) = (&*self.queue.client().store, self.queue.queue()?);
        if !filter.jobs.is_empty() {
            let items = redrive::letters_by_id(store, &queue, filter).await?;
            return Ok(Page { items, next: None });
        }
        let page = self.queue.jobs(JobState::Dead, page).await?;
        let letters = page.items.iter().map(DeadLetter::from_stored);
        Ok(Page { items: letters.filter(|letter| filter.matches(letter)).collect(), next: page.next })
    }

    /// Moves the letters that match `filter` back to their queue, with no attempts counted. Returns
    /// how many moved. Each job moves once: one that dies again meanwhile stays dead. A letter that
    /// is not an envelope stays.
    ///
    /// # Errors
    /// [`Error::InvalidName`], or the first error of the store. Letters before it have been moved.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have moved some letters.
    pub async fn redrive(&self, filter: &DeadLetterFilter) -> Result<u64, Error> {
        redrive::redrive(&*self.queue.client().store, &self.queue.queue()?, filter).await
    }

    /// Deletes the letters that match `filter`. Returns how many there were. Letters of workflow
    /// tasks stay, because their runs would wait for ever.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::Invalid`] if the filter names a workflow task; otherwise the
    /// first error of the store. Letters before it have been deleted.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have deleted some letters.
    pub async fn drop(&self, filter: &DeadLetterFilter) -> Result<u64, Error> {
        redrive::drop_dead(&*self.queue.client().store, &self.queue.queue()?, filter).await
    }
}
