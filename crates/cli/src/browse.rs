//! Finding things in a store: the queue a name means, and jobs and others page by page.

use tidemill::job::JobState;
use tidemill::store::{JobInfo, ListJobsParams, Page, QueueInfo};
use tidemill::{Error, Guarantee, Queue, QueueName, Store};

/// How much is asked of a store at once.
const PAGE: usize = 256;

/// A queue as it is named on the command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct QueueArg {
    /// Which queue
    pub(crate) queue: QueueName,

    /// The at-most-once queue of that name; needed only if there are two
    #[arg(long)]
    pub(crate) at_most_once: bool,
}

impl QueueArg {
    /// The queue that is meant: of two with one name the at-least-once one, unless the other was asked for.
    pub(crate) async fn find(&self, store: &dyn Store) -> Result<QueueInfo, Error> {
        let found = meant(&self.queue, self.at_most_once, store.list_queues().await?);
        found.ok_or_else(|| Error::NotFound(format!("queue `{}`", self.queue)))
    }

    /// The same, but a queue that nobody has used yet is one too.
    pub(crate) async fn find_or_new(&self, store: &dyn Store) -> Result<Queue, Error> {
        let known = meant(&self.queue, self.at_most_once, store.list_queues().await?).map(|info| info.queue);
        let delivery = if self.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce };
        Ok(known.unwrap_or_else(|| Queue { name: self.queue.clone(), guarantee: delivery }))
    }
}

fn meant(name: &QueueName, at_most_once: bool, queues: Vec<QueueInfo>) -> Option<QueueInfo> {
    let mut found: Vec<_> = queues.into_iter().filter(|info| info.queue.name == *name).collect();
    if at_most_once {
        found.retain(|info| info.queue.guarantee == Guarantee::AtMostOnce);
    }
    found.into_iter().max_by_key(|info| info.queue.guarantee)
}

/// The queues to look at: the one that is named, both of them if there are two, or all.
pub(crate) async fn queues(store: &dyn Store, name: Option<&QueueName>) -> Result<Vec<QueueInfo>, Error> {
    let mut queues = store.list_queues().await?;
    if let Some(name) = name {
        queues.retain(|info| info.queue.name == *name);
        if queues.is_empty() {
            return Err(Error::NotFound(format!("queue `{name}`")));
        }
    }
    Ok(queues)
}

/// The first `limit` of what `page` gives, and whether there is more.
pub(crate) async fn first<T, E, F: Future<Output = Result<Page<T>, E>>>(
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

/// Jobs that were found, and whether there are more.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) jobs: Vec<JobInfo>,
    pub(crate) more: bool,
}

impl Found {
    /// Adds the jobs of `queue` in `state` that `keep` wants, until there are `limit` in all.
    pub(crate) async fn add(
        &mut self,
        store: &dyn Store,
        (queue, state): (&Queue, JobState),
        limit: usize,
        keep: impl Fn(&JobInfo) -> bool,
    ) -> Result<(), Error> {
        let mut cursor = None;
        while !self.more {
            let page = store.list_jobs(ListJobsParams { queue, state, cursor, limit: PAGE }).await?;
            for job in page.items.into_iter().filter(&keep) {
                self.more = self.jobs.len() == limit;
                if self.more {
                    return Ok(());
                }
                self.jobs.push(job);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
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
            meant(&name, at_most_once, queues).map(|info| info.queue.guarantee)
        };
        assert_eq!(find(false, &[AtMostOnce]), Some(AtMostOnce));
        assert_eq!(find(false, &[AtMostOnce, AtLeastOnce]), Some(AtLeastOnce));
        assert_eq!(find(true, &[AtMostOnce, AtLeastOnce]), Some(AtMostOnce));
        assert_eq!(find(true, &[AtLeastOnce]), None);
    }
}
