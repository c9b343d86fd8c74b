//! Group commit: enqueues of few jobs that arrive while a statement is running go into the next one
//! together, so that many callers cost about as much as one.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, Queue};
use tokio::sync::{mpsc, oneshot};

use super::enqueue::is_new;
use crate::Inner;
use crate::error::is_locked;

/// A request with more jobs does not profit from a group.
const MAX_GROUPED_JOBS: usize = 16;

/// In bytes. A few large envelopes are a batch by themselves, and a statement must not be too large
/// for the server.
const MAX_GROUPED_BYTES: usize = 64 << 10;

/// The most requests in one statement. As many may wait for it.
const MAX_STATEMENT_REQUESTS: usize = 256;

/// How many statements run at once: while one waits for the disk, the next is on its way.
const MAX_CONCURRENT_STATEMENTS: usize = 2;

/// How many requests run at once that run individually. It is less than the number of connections,
/// because a request that waits for a lock holds its connection.
const MAX_CONCURRENT_SINGLES: usize = 2;

/// Collects enqueue requests and runs them together.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    requests: mpsc::Sender<EnqueueRequest>,
}

struct EnqueueRequest {
    queue: Queue,
    jobs: Vec<NewJob>,
    reply: oneshot::Sender<Result<Vec<Enqueued>, Error>>,
}

impl GroupCommit {
    /// The handle, and the task that runs the requests until the handle is dropped.
    pub(crate) fn new(inner: Arc<Inner>) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, requests) = mpsc::channel(MAX_STATEMENT_REQUESTS);
        (Self { requests: sender }, run(inner, requests))
    }

    /// Whether jobs may be grouped with others. Jobs that depend on other chains may be rejected,
    /// and must not fail the rest of their group.
    pub(crate) fn accepts(jobs: &[NewJob]) -> bool {
        jobs.len() <= MAX_GROUPED_JOBS
            && jobs.iter().all(|job| job.links.is_empty())
            && jobs.iter().map(|job| job.envelope.len()).sum::<usize>() <= MAX_GROUPED_BYTES
    }

    /// Adds jobs, together with other requests.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        let (reply, receiver) = oneshot::channel();
        let request = EnqueueRequest { queue: queue.clone(), jobs, reply };
        let closed = || Error::Unavailable { message: "the store is closed".into(), source: None };
        self.requests.send(request).await.map_err(|_| closed())?;
        receiver.await.map_err(|_| closed())?
    }
}

async fn run(inner: Arc<Inner>, mut requests: mpsc::Receiver<EnqueueRequest>) {
    // An id chosen by a user may be locked by an open transaction. Requests with such ids must not
    // block others.
    let (mut fresh, mut chosen, mut singles) =
        (FuturesUnordered::new(), FuturesUnordered::new(), FuturesUnordered::new());
    let split = |locked: Option<Vec<EnqueueRequest>>| locked.map(|group| write_individually(&inner, group));
    let (mut arrived, mut waiting, mut open) = (Vec::new(), Vec::new(), true);
    loop {
        tokio::select! {
            Some(locked) = fresh.next(), if !fresh.is_empty() => {
                singles.extend(split(locked));
                // Callers that just got their results may send the next request first.
                tokio::task::yield_now().await;
            }
            Some(locked) = chosen.next(), if !chosen.is_empty() => {
                singles.extend(split(locked));
                tokio::task::yield_now().await;
            }
            Some(()) = singles.next(), if !singles.is_empty() => {}
            taken = requests.recv_many(&mut arrived, MAX_STATEMENT_REQUESTS), if open && fresh.len() < MAX_CONCURRENT_STATEMENTS => {
                open = taken > 0;
            }
            else => return,
        }
        let (new, named): (Vec<_>, Vec<_>) =
            arrived.drain(..).partition(|request: &EnqueueRequest| request.jobs.iter().all(is_new));
        fresh.extend(by_queue(new).into_iter().map(|group| write(&inner, group)));
        waiting.extend(named);
        while chosen.len() < MAX_CONCURRENT_STATEMENTS && !waiting.is_empty() {
            let some = waiting.drain(..waiting.len().min(MAX_STATEMENT_REQUESTS)).collect();
            chosen.extend(by_queue(some).into_iter().map(|group| write(&inner, group)));
        }
    }
}

/// Groups requests by queue, in the order in which they arrived.
fn by_queue(mut requests: Vec<EnqueueRequest>) -> Vec<Vec<EnqueueRequest>> {
    requests.sort_by(|one, other| one.queue.cmp(&other.queue));
    let mut groups: Vec<Vec<EnqueueRequest>> = Vec::new();
    for request in requests {
        match groups.last_mut() {
            Some(group) if group[0].queue == request.queue => group.push(request),
            _ => groups.push(vec![request]),
        }
    }
    groups
}

/// Runs requests of one queue. Returns them if an open transaction has locked an id of one of them.
async fn write(inner: &Inner, group: Vec<EnqueueRequest>) -> Option<Vec<EnqueueRequest>> {
    let queue = group.first()?.queue.clone();
    let jobs: Vec<NewJob> = group.iter().flat_map(|request| request.jobs.iter().cloned()).collect();
    let result = inner.enqueue(&queue, &jobs).await;
    if group.len() > 1 && result.as_ref().is_err_and(is_locked) {
        return Some(group);
    }
    let mut from = 0;
    for EnqueueRequest { jobs, reply, .. } in group {
        let own = from..from + jobs.len();
        from = own.end;
        // The caller may have stopped waiting.
        let _ = reply.send(result.as_ref().map(|results| results[own].to_vec()).map_err(Error::duplicate));
    }
    None
}

/// Runs each request by itself, so that a locked id fails only its own request.
async fn write_individually(inner: &Inner, group: Vec<EnqueueRequest>) {
    let write = |EnqueueRequest { queue, jobs, reply }: EnqueueRequest| async move {
        // The caller may have stopped waiting.
        let _ = reply.send(inner.enqueue(&queue, &jobs).await);
    };
    stream::iter(group).for_each_concurrent(MAX_CONCURRENT_SINGLES, write).await;
}
