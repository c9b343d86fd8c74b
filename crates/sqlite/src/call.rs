//! A piece of work on its way to a database thread and its answer on the way back.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tidemill_core::{Error, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::Failure;
use crate::wake::Announcements;

/// How many calls may be under way at once. More callers wait for their turn; the bound keeps what they have
/// handed over, a batch of envelopes each at most, from growing without end.
const CALLS: usize = 1_024;

/// What a piece of work has at hand.
pub(crate) struct Tx<'t> {
    /// The connection, inside a transaction.
    pub(crate) connection: &'t rusqlite::Connection,
    /// The store's time, the same for the whole transaction.
    pub(crate) now: Timestamp,
    /// What to tell the world once it has committed.
    pub(crate) announcements: &'t mut Announcements,
}

/// A piece of work. It may run twice: together with others and, if that failed, on its own.
pub(crate) trait Call: Send {
    /// Does the work and keeps the answer back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failure>;

    /// Gives the answer: what the last run came to if `outcome` is good, else why not. Nobody may be there
    /// to hear it.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);

    /// About how many rows it touches.
    fn weight(&self) -> usize;
}

struct Work<T, F> {
    work: F,
    weight: usize,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
    _permit: OwnedSemaphorePermit,
}

impl<T, F> Call for Work<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failure> {
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { result, reply, .. } = *self;
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(stopped)));
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

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
    pub(crate) fn new(sender: mpsc::Sender<Message>, thread: JoinHandle<()>) -> Self {
        let turns = Arc::new(Semaphore::new(CALLS));
        Self { sender: Some(sender), turns, thread: Some(thread) }
    }

    /// Has `work` done and waits for the answer. Whoever stops waiting does not stop the work.
    pub(crate) async fn call<T, F>(&self, weight: usize, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let permit = self.turns.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Call(Box::new(Work { work, weight, result: None, reply, _permit: permit })));
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stopped() -> Error {
    Error::Unavailable { message: "the database thread has stopped".into(), source: None }
}
