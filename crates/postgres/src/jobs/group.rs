//! Group commit: enqueues of single jobs that arrive while a statement is under way go into the next one
//! together, so that many callers cost about as much as one.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, Queue};
use tokio::sync::{mpsc, oneshot};

use crate::Inner;
use crate::error::again;

/// What is larger has no need of company.
const SMALL: usize = 16;

/// In bytes: a few large envelopes are a batch by themselves, and one statement must stay of a size that a
/// server takes without effort.
const LIGHT: usize = 64 << 10;

/// The most requests in one statement; as many may wait for it.
const TOGETHER: usize = 256;

/// How many piles are written at once: while one waits for the disk, the next is on its way.
const AT_ONCE: usize = 2;

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
    let mut under_way = FuturesUnordered::new();
    let mut open = true;
    while open || !under_way.is_empty() {
        let mut pile = Vec::new();
        tokio::select! {
            Some(()) = under_way.next(), if !under_way.is_empty() => {
                // Lets those who have just been answered come again first.
                tokio::task::yield_now().await;
            }
            taken = requests.recv_many(&mut pile, TOGETHER), if open && under_way.len() < AT_ONCE => {
                open = taken > 0;
            }
        }
        under_way.extend(by_queue(pile).into_iter().map(|group| write(&inner, group)));
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

async fn write(inner: &Inner, group: Vec<Request>) {
    let Some(queue) = group.first().map(|request| request.queue.clone()) else { return };
    let jobs: Vec<NewJob> = group.iter().flat_map(|request| request.jobs.iter().cloned()).collect();
    let result = inner.enqueue(&queue, &jobs).await;
    let mut from = 0;
    for Request { jobs, answer, .. } in group {
        let own = from..from + jobs.len();
        from = own.end;
        // Whoever has stopped waiting does not want the answer.
        let _ = answer.send(result.as_ref().map(|made| made[own].to_vec()).map_err(again));
    }
}
