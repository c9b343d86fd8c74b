//! A database thread and the channel of requests in front of it.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use tidemill_core::Error;
use tokio::sync::{Semaphore, oneshot};

use super::request::{ClosureRequest, Cost, DatabaseRequest, RunsLeft, Tx, thread_stopped};
use crate::error::RequestError;

/// How many requests may be queued or running at once. Further callers wait for a permit. The bound
/// limits the memory of queued requests: each holds a batch of envelopes at most.
const MAX_PENDING_REQUESTS: usize = 1_024;

/// A message to a database thread.
pub(crate) enum ThreadMessage {
    /// A request to run.
    Request(Box<dyn DatabaseRequest>),
    /// The first listener for writes of other processes has appeared.
    Listen,
}

/// The handle of a database thread. Dropping it ends the thread and waits for it, so that the file
/// is closed when the store is gone.
#[derive(Debug)]
pub(crate) struct DatabaseThread {
    sender: Option<mpsc::Sender<ThreadMessage>>,
    permits: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl DatabaseThread {
    /// Opens a database on a new thread, where it stays, and serves requests until the handle is
    /// dropped.
    pub(crate) async fn start<D: 'static>(
        name: &str,
        open: impl FnOnce() -> Result<D, Error> + Send + 'static,
        serve: impl FnOnce(D, &Receiver<ThreadMessage>) + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, requests) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let work = move || {
            // The opening caller may have stopped waiting. Then no requests follow either.
            let _ = match open() {
                Err(error) => opened.send(Err(error)),
                Ok(database) => opened.send(Ok(())).map(|()| serve(database, &requests)),
            };
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::unavailable("no thread for the database", error))?;
        let permits = Arc::new(Semaphore::new(MAX_PENDING_REQUESTS));
        let handle = Self { sender: Some(sender), permits, thread: Some(thread) };
        is_open.await.map_err(|_| thread_stopped())??;
        Ok(handle)
    }

    /// Sends `work` to the thread and waits for the result. Dropping the future does not stop the
    /// work.
    pub(crate) async fn call<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        self.submit(cost, RunsLeft::Any, work).await
    }

    /// Sends `work` like [`call`](Self::call), but it runs once at most. If it fails, it must have
    /// left no changes.
    pub(crate) async fn call_once<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        let mut work = Some(work);
        let run =
            move |tx: &mut Tx<'_>| work.take().map_or_else(|| Err(thread_stopped().into()), |work| work(tx));
        self.submit(cost, RunsLeft::One, run).await
    }

    async fn submit<T, F>(&self, cost: Cost, runs_left: RunsLeft, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| thread_stopped())?;
        let (request, reply) = ClosureRequest::new(cost, runs_left, work, permit);
        self.send(ThreadMessage::Request(Box::new(request)));
        // A stopped thread drops the reply sender, which ends this wait.
        reply.await.map_err(|_| thread_stopped())?
    }

    pub(crate) fn send(&self, message: ThreadMessage) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(message);
        }
    }
}

impl Drop for DatabaseThread {
    fn drop(&mut self) {
        self.sender = None;
        let current = thread::current().id();
        // A request may hold the last handle of its own store. A thread cannot join itself; it ends
        // after the request.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current) {
            let _ = thread.join();
        }
    }
}
