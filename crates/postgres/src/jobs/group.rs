//! Group commit: enqueues of single jobs that arrive while a statement is under way go into the next one
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

/// What is larger has no need of company.
const SMALL: usize = 16;

/// In bytes: a few large envelopes are a batch by themselves, and one statement must stay of a size that a
/// server takes without effort.
const LIGHT: usize = 64 << 10;

/// The most requests in one statement; as many may wait for it.
const TOGETHER: usize = 256;

/// How many piles are written at once: while one waits for the disk, the next is on its way.
const AT_ONCE: usize = 2;

/// How many requests are written at once that are written apart: fewer than there are connections, as those that wait for
/// a lock hold theirs.
const APART_AT_ONCE: usize = 2;

/// Takes requests to its desk and writes them down together.
#[derive(Debug)]
pub(crate) struct Clerk {
    desk: mpsc::Sender<Request>,
}

struct Request {
    queue: Queue,
    jobs: Vec<NewJob>,
    answer: oneshot::Sender<Result<Vec<Enqueued>, Error>>,
}

impl Clerk {
    /// A clerk, and the work it does until it is dropped.
    pub(crate) fn new(inner: Arc<Inner>) -> (Self, impl Future<Output = ()> + Send) {
        let (desk, requests) = mpsc::channel(TOGETHER);
        (Self { desk }, work(inner, requests))
    }

    /// Whether jobs are better written with others. What is tied to other chains may be refused, and must not take
    /// its neighbours with it.
    pub(crate) fn takes(jobs: &[NewJob]) -> bool {
        jobs.len() <= SMALL
            && jobs.iter().all(|job| job.links.is_empty())
            && jobs.iter().map(|job| job.envelope.len()).sum::<usize>() <= LIGHT
    }

    /// Adds jobs, together with whatever else there is.
    pub(crate) async fn enqueue(&self, queue: &Queue, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        let (answer, answered) = oneshot::channel();
        let request = Request { queue: queue.clone(), jobs, answer };
        let closed = || Error::Unavailable { message: "the store is closed".into(), source: None };
        self.desk.send(request).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn work(inner: Arc<Inner>, mut requests: mpsc::Receiver<Request>) {
    // An id that somebody chose may be locked by somebody's open transaction: what has such ids holds up nothing else.
    let (mut fresh, mut chosen, mut apart) =
        (FuturesUnordered::new(), FuturesUnordered::new(), FuturesUnordered::new());
    let put_apart = |locked: Option<Vec<Request>>| locked.map(|group| write_apart(&inner, group));
    let (mut arrived, mut waiting, mut open) = (Vec::new(), Vec::new(), true);
    loop {
        tokio::select! {
            Some(locked) = fresh.next(), if !fresh.is_empty() => {
                apart.extend(put_apart(locked));
                // Lets those who have just been answered come again first.
                tokio::task::yield_now().await;
            }
            Some(locked) = chosen.next(), if !chosen.is_empty() => {
                apart.extend(put_apart(locked));
                tokio::task::yield_now().await;
            }
            Some(()) = apart.next(), if !apart.is_empty() => {}
            taken = requests.recv_many(&mut arrived, TOGETHER), if open && fresh.len() < AT_ONCE => {
                open = taken > 0;
            }
            else => return,
        }
        let (new, named): (Vec<_>, Vec<_>) =
            arrived.drain(..).partition(|request: &Request| request.jobs.iter().all(is_new));
        fresh.extend(by_queue(new).into_iter().map(|group| write(&inner, group)));
        waiting.extend(named);
        while chosen.len() < AT_ONCE && !waiting.is_empty() {
            let some = waiting.drain(..waiting.len().min(TOGETHER)).collect();
            chosen.extend(by_queue(some).into_iter().map(|group| write(&inner, group)));
        }
    }
}

/// The requests of each queue together, in the order in which they came.
fn by_queue(mut pile: Vec<Request>) -> Vec<Vec<Request>> {
    pile.sort_by(|one, other| one.queue.cmp(&other.queue));
    let mut groups: Vec<Vec<Request>> = Vec::new();
    for request in pile {
        match groups.last_mut() {
            Some(group) if group[0].queue == request.queue => group.push(request),
            _ => groups.push(vec![request]),
        }
    }
    groups
}

/// Writes requests of one queue. Returns them if somebody's open transaction has locked an id of one of them.
async fn write(inner: &Inner, group: Vec<Request>) -> Option<Vec<Request>> {
    let queue = group.first()?.queue.clone();
    let jobs: Vec<NewJob> = group.iter().flat_map(|request| request.jobs.iter().cloned()).collect();
    let result = inner.enqueue(&queue, &jobs).await;
    if group.len() > 1 && result.as_ref().is_err_and(is_locked) {
        return Some(group);
    }
    let mut from = 0;
    for Request { jobs, answer, .. } in group {
        let own = from..from + jobs.len();
        from = own.end;
        // Whoever has stopped waiting does not want the answer.
        let _ = answer.send(result.as_ref().map(|made| made[own].to_vec()).map_err(Error::duplicate));
    }
    None
}

/// Writes each request by itself, so that those that are not locked do not fail for the one that is.
async fn write_apart(inner: &Inner, group: Vec<Request>) {
    let alone = |Request { queue, jobs, answer }: Request| async move {
        // Whoever has stopped waiting does not want the answer.
        let _ = answer.send(inner.enqueue(&queue, &jobs).await);
    };
    stream::iter(group).for_each_concurrent(APART_AT_ONCE, alone).await;
}
