//! Lookups: queues by name, and paged listings.

use tidemill::job::JobState;
use tidemill::store::{JobInfo, Page, QueueInfo};
use tidemill::{Client, Error, Guarantee, PageParams, Queue, QueueHandle, QueueName};

/// Page size of a listing of jobs.
const PAGE_JOBS: usize = 256;

/// A queue named on the command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct QueueArg {
    /// Name of the queue
    pub(crate) queue: QueueName,

    /// Select the at-most-once queue of that name, if there are two
    #[arg(long)]
    pub(crate) at_most_once: bool,
}

impl QueueArg {
    /// Finds the queue. If two queues have this name, selects the at-least-once queue unless the
    /// flag selects the other.
    pub(crate) async fn find(&self, client: &Client) -> Result<QueueInfo, Error> {
        let select = |queues| select_queue(&self.queue, self.at_most_once, queues);
        if let Some(found) = select(client.queues().await?) {
            return Ok(found);
        }
        let found = select(all_queues(client).await?);
        found.ok_or_else(|| Error::NotFound(format!("queue `{}`", self.queue)))
    }

    /// Finds the queue, or describes a new one if the store does not know the name.
    pub(crate) async fn find_or_new(&self, client: &Client) -> Result<Queue, Error> {
        let known =
            select_queue(&self.queue, self.at_most_once, client.queues().await?).map(|info| info.queue);
        let delivery = if self.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
        Ok(known.unwrap_or_else(|| Queue { name: self.queue.clone(), guarantee: delivery }))
    }
}

fn select_queue(name: &QueueName, at_most_once: bool, queues: Vec<QueueInfo>) -> Option<QueueInfo> {
    let mut found: Vec<_> = queues.into_iter().filter(|info| info.queue.name == *name).collect();
    if at_most_once {
        found.retain(|info| info.queue.guarantee == Guarantee::AtMostOnce);
    }
    found.into_iter().max_by_key(|info| info.queue.guarantee)
}

/// A handle to a queue of a listing.
pub(crate) fn queue_handle(client: &Client, queue: &Queue) -> QueueHandle {
    client.queue(queue.name.as_str()).guarantee(queue.guarantee)
}

/// All queues, including those that only other programs have filled.
pub(crate) async fn all_queues(client: &Client) -> Result<Vec<QueueInfo>, Error> {
    // The listing reports what is wrong with the store.
    let _ = client.discover_queues().await;
    client.queues().await
}

/// Lists the queues with this name, of either guarantee, or all queues.
pub(crate) async fn list_queues(client: &Client, name: Option<&QueueName>) -> Result<Vec<QueueInfo>, Error> {
    let mut queues = all_queues(client).await?;
    if let Some(name) = name {
        queues.retain(|info| info.queue.name == *name);
        if queues.is_empty() {
            return Err(Error::NotFound(format!("queue `{name}`")));
        }
    }
    Ok(queues)
}

/// Reads pages up to `limit` items. Returns the items and whether there are more.
pub(crate) async fn first_items<T, E, F: Future<Output = Result<Page<T>, E>>>(
    limit: usize,
    mut page: impl FnMut(Option<String>, usize) -> F,
) -> Result<(Vec<T>, bool), E> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let Page { items, next } = page(cursor, limit - found.len()).await?;
        found.extend(items);
        if next.is_none() || found.len() >= limit {
            return Ok((found, next.is_some()));
        }
        cursor = next;
    }
}

/// The page that starts at this cursor, or the first one.
pub(crate) fn page_params(cursor: Option<String>, limit: usize) -> PageParams {
    cursor.map_or_else(|| PageParams::first(limit), |cursor| PageParams::at(cursor, limit))
}

/// Selects jobs of a listing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobQuery<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) state: JobState,
    /// Maximum number of jobs in the whole listing.
    pub(crate) limit: usize,
}

/// Jobs of a listing, and whether there are more.
#[derive(Debug, Default)]
pub(crate) struct FoundJobs {
    pub(crate) jobs: Vec<JobInfo>,
    pub(crate) more: bool,
}

impl FoundJobs {
    /// Adds the matching jobs that `keep` accepts, until the query's limit is reached.
    pub(crate) async fn add(
        &mut self,
        client: &Client,
        query: JobQuery<'_>,
        keep: impl Fn(&JobInfo) -> bool,
    ) -> Result<(), Error> {
        let JobQuery { queue, state, limit } = query;
        let (queue, mut page) = (queue_handle(client, queue), PageParams::first(PAGE_JOBS));
        while !self.more {
            let Page { items, next } = queue.jobs(state, page).await?;
            for job in items.into_iter().filter(&keep) {
                self.more = self.jobs.len() == limit;
                if self.more {
                    return Ok(());
                }
                self.jobs.push(job);
            }
            let Some(cursor) = next else { return Ok(()) };
            page = PageParams::at(cursor, PAGE_JOBS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(delivery: Guarantee) -> QueueInfo {
        let queue = Queue { name: QueueName::new("mail").unwrap(), guarantee: delivery };
        QueueInfo {
            queue,
            ready: 0,
            scheduled: 0,
            blocked: 0,
            running: 0,
            dead: 0,
            paused: false,
            problems: vec![],
        }
    }

    #[test]
    fn a_name_means_the_only_queue_there_is_or_the_at_least_once_one() {
        use Guarantee::{AtLeastOnce, AtMostOnce};
        let name = QueueName::new("mail").unwrap();
        let find = |at_most_once, queues: &[Guarantee]| {
            let queues = queues.iter().map(|delivery| info(*delivery)).collect();
            select_queue(&name, at_most_once, queues).map(|info| info.queue.guarantee)
        };
        assert_eq!(find(false, &[AtMostOnce]), Some(AtMostOnce));
        assert_eq!(find(false, &[AtMostOnce, AtLeastOnce]), Some(AtLeastOnce));
        assert_eq!(find(true, &[AtMostOnce, AtLeastOnce]), Some(AtMostOnce));
        assert_eq!(find(true, &[AtLeastOnce]), None);
    }
}
