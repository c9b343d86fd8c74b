//! Group commit: single jobs that arrive during a call are added by the next one together, so that
//! many callers cost the server about as much as one.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_core::store::NewJob;
use tidemill_core::{Error, Queue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::enqueue_plain::{PlainEnqueuer, is_plain};

/// Maximum jobs of one script, so that no caller waits long for it; also the capacity of the
/// channel.
const MAX_BATCH_JOBS: usize = 256;

/// Maximum envelope size: larger ones are sent alone, so that a full script stays small.
const MAX_GROUPED_BYTES: usize = 4 << 10;

/// Concurrent calls for one queue: while the server runs one, the next is in transit.
const MAX_CONCURRENT_CALLS: usize = 2;

/// A queue in one shard: the target of one script. Each has its own batch, so that an unreachable
/// server delays no other.
type ShardQueue = (u16, Queue);

/// Collects single jobs and adds them together.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    sender: mpsc::Sender<EnqueueRequest>,
    /// Ends with the group commit.
    _work: JoinSet<()>,
}

struct EnqueueRequest {
    shard_queue: ShardQueue,
    job: NewJob,
    reply: oneshot::Sender<Result<(), Error>>,
}

#[derive(Default)]
struct QueueBatch {
    waiting: Vec<EnqueueRequest>,
    under_way: usize,
}

impl GroupCommit {
    pub(crate) fn new(enqueuer: Arc<PlainEnqueuer>) -> Self {
        let (sender, requests) = mpsc::channel(MAX_BATCH_JOBS);
        let mut tasks = JoinSet::new();
        tasks.spawn(run(enqueuer, requests));
        Self { sender, _work: tasks }
    }

    /// Whether a job is better added with others.
    pub(super) fn accepts(queue: &Queue, jobs: &[NewJob]) -> bool {
        matches!(jobs, [job] if is_plain(queue, job) && job.envelope.len() <= MAX_GROUPED_BYTES)
    }

    /// Enqueues a job, together with other waiting ones.
    pub(super) async fn enqueue(&self, shard_queue: ShardQueue, job: NewJob) -> Result<(), Error> {
        let (reply, replied) = oneshot::channel();
        let closed = || Error::Unavailable { message: "the store is closed".into(), source: None };
        self.sender.send(EnqueueRequest { shard_queue, job, reply }).await.map_err(|_| closed())?;
        replied.await.map_err(|_| closed())?
    }
}

async fn run(enqueuer: Arc<PlainEnqueuer>, mut requests: mpsc::Receiver<EnqueueRequest>) {
    let mut batches: HashMap<ShardQueue, QueueBatch> = HashMap::new();
    let (mut calls, mut arrived) = (FuturesUnordered::new(), Vec::new());
    loop {
        tokio::select! {
            Some(shard_queue) = calls.next(), if !calls.is_empty() => {
                call_finished(&mut batches, &shard_queue);
                // Lets callers that were just answered send their next job first.
                tokio::task::yield_now().await;
                while let Ok(request) = requests.try_recv() {
                    arrived.push(request);
                }
            }
            received = requests.recv_many(&mut arrived, MAX_BATCH_JOBS) => if received == 0 { return },
        }
        for request in arrived.drain(..) {
            batches.entry(request.shard_queue.clone()).or_default().waiting.push(request);
        }
        for (shard_queue, batch) in &mut batches {
            while batch.under_way < MAX_CONCURRENT_CALLS && !batch.waiting.is_empty() {
                let group: Vec<EnqueueRequest> =
                    batch.waiting.drain(..batch.waiting.len().min(MAX_BATCH_JOBS)).collect();
                batch.under_way += 1;
                calls.push(write(&enqueuer, shard_queue.clone(), group));
            }
        }
    }
}

/// Removes an idle queue: there may be very many.
fn call_finished(batches: &mut HashMap<ShardQueue, QueueBatch>, shard_queue: &ShardQueue) {
    let Some(batch) = batches.get_mut(shard_queue) else { return };
    batch.under_way -= 1;
    if batch.under_way == 0 && batch.waiting.is_empty() {
        batches.remove(shard_queue);
    }
}

async fn write(enqueuer: &PlainEnqueuer, shard_queue: ShardQueue, group: Vec<EnqueueRequest>) -> ShardQueue {
    let (shard, queue) = &shard_queue;
    let jobs = group.iter().map(|request| &request.job);
    let result = enqueuer.enqueue((*shard, queue), jobs).await;
    for EnqueueRequest { job, reply, .. } in group {
        let own = match &result {
            Ok(written) => written.confirmed(&format!("job {} was made", job.id)),
            Err(error) => Err(error.duplicate()),
        };
        // A caller that has stopped waiting needs no reply.
        let _ = reply.send(own);
    }
    shard_queue
}
