//! A database thread and the line of calls in front of it.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use tidemill_core::Error;
use tokio::sync::{Semaphore, oneshot};

use crate::call::{Call, Cost, Runs, Tx, Work, stopped};
use crate::error::Failure;

/// How many calls may be under way at once. More callers wait for their turn; the bound keeps what they have
/// handed over, a batch of envelopes each at most, from growing without end.
const CALLS: usize = 1_024;

/// What a database thread is sent.
pub(crate) enum Message {
    /// Work to do.
    Call(Box<dyn Call>),
    /// Somebody listens from now on.
    Listen,
}

/// A database thread, seen from outside. Ends the thread and waits for it when dropped, so that the file is
/// closed when the store is gone.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Option<mpsc::Sender<Message>>,
    turns: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Opens a database on a thread of its own, where it stays, and has it serve calls until nobody can make
    /// any more.
    pub(crate) async fn start<D: 'static>(
        name: &str,
        open: impl FnOnce() -> Result<D, Error> + Send + 'static,
        serve: impl FnOnce(D, &Receiver<Message>) + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, calls) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let work = move || {
            // Whoever opens may have stopped waiting; then nobody calls either.
            let _ = match open() {
                Err(error) => opened.send(Err(error)),
                Ok(database) => opened.send(Ok(())).map(|()| serve(database, &calls)),
            };
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::unavailable("no thread for the database", error))?;
        let turns = Arc::new(Semaphore::new(CALLS));
        let line = Self { sender: Some(sender), turns, thread: Some(thread) };
        is_open.await.map_err(|_| stopped())??;
        Ok(line)
    }

    /// Has `work` done and waits for the answer. Whoever stops waiting does not stop the work.
    pub(crate) async fn call<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.have_done(cost, Runs::Any, work).await
    }

    /// Has `work` done like [`call`](Self::call), but once. If it fails, it must have left nothing behind.
    pub(crate) async fn call_once<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let mut work = Some(work);
        let run = move |tx: &mut Tx<'_>| work.take().map_or_else(|| Err(stopped().into()), |work| work(tx));
        self.have_done(cost, Runs::Once, run).await
    }

    async fn have_done<T, F>(&self, cost: Cost, runs: Runs, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (work, answer) = Work::new(cost, runs, work, turn);
        self.send(Message::Call(Box::new(work)));
        // A thread that is gone drops the reply, which is noticed here.
        answer.await.map_err(|_| stopped())?
    }

    pub(crate) fn send(&self, message: Message) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(message);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.sender = None;
        let here = thread::current().id();
        // Work may hold the last handle of the store it is done by; then the thread ends by itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != here) {
            let _ = thread.join();
        }
    }
}
