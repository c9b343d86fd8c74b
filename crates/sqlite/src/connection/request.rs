//! A request to a database thread, and the channel for its result.

use tidemill_core::wake::{Wake, WakeSet};
use tidemill_core::{Error, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::error::RequestError;
use crate::wake::TransactionWakes;

/// The transaction in which a request runs.
pub(crate) struct Tx<'t> {
    /// The connection, inside a transaction.
    pub(crate) connection: &'t rusqlite::Connection,
    /// The store's time, the same for the whole transaction.
    pub(crate) now: Timestamp,
    /// The wake-ups to publish after the commit.
    pub(crate) wakes: &'t mut dyn WakeSink,
}

/// Collects the wake-ups of a transaction.
pub(crate) trait WakeSink {
    fn add(&mut self, wake: Wake);
}

impl WakeSink for TransactionWakes {
    fn add(&mut self, wake: Wake) {
        Self::add(self, wake);
    }
}

impl WakeSink for WakeSet {
    fn add(&mut self, wake: Wake) {
        Self::add(self, wake);
    }
}

/// A request to a database thread.
pub(crate) trait DatabaseRequest: Send {
    /// Runs the request and keeps its result until [`reply`](Self::reply).
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), RequestError>;

    /// Sends the result of the last run if `outcome` is `Ok`, else the error. The caller may have
    /// stopped waiting.
    fn reply(self: Box<Self>, outcome: Result<(), Error>);

    /// The estimated cost.
    fn cost(&self) -> Cost;

    /// How often it may still run.
    fn runs_left(&self) -> RunsLeft;
}

/// How often a request may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunsLeft {
    /// Any number of times: in a batch and, if the batch failed, on its own. A failed run may leave
    /// changes, so the caller has to roll back.
    Any,
    /// Once. A failed run leaves no changes.
    One,
    /// Not again: it has run.
    Zero,
}

/// The estimated cost of a request and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    rows: usize,
    grows: bool,
    durable: bool,
    skip_if_abandoned: bool,
}

impl Cost {
    /// The request makes the database larger, by about so many rows. It is rejected while the disk
    /// is full.
    pub(crate) const fn growth(rows: usize) -> Self {
        Self { rows, grows: true, durable: true, skip_if_abandoned: false }
    }

    /// The request changes or removes about so many rows.
    pub(crate) const fn change(rows: usize) -> Self {
        Self { rows, grows: false, durable: true, skip_if_abandoned: false }
    }

    /// The commit does not wait for the disk, because the callers repeat what they wrote at
    /// intervals. It need not survive a power cut. (It still survives a crash of the process.)
    pub(crate) const fn without_sync(self) -> Self {
        Self { durable: false, ..self }
    }

    /// The request does not run if its caller has stopped waiting. Nobody would run the jobs of
    /// such a claim.
    pub(crate) const fn skip_if_abandoned(self) -> Self {
        Self { skip_if_abandoned: true, ..self }
    }

    pub(crate) const fn is_growth(self) -> bool {
        self.grows
    }

    /// Whether it must be on disk before the reply.
    pub(crate) const fn is_durable(self) -> bool {
        self.durable
    }

    /// About how many rows it touches.
    pub(crate) const fn rows(self) -> usize {
        self.rows
    }
}

/// A request that runs a closure.
pub(crate) struct ClosureRequest<T, F> {
    work: F,
    cost: Cost,
    runs_left: RunsLeft,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
    /// Frees the caller's slot of [`DatabaseThread`](super::thread::DatabaseThread) when the
    /// request is done.
    _permit: OwnedSemaphorePermit,
}

/// Receives the result of a request.
pub(crate) type ReplyReceiver<T> = oneshot::Receiver<Result<T, Error>>;

impl<T, F> ClosureRequest<T, F> {
    pub(crate) fn new(
        cost: Cost,
        runs_left: RunsLeft,
        work: F,
        permit: OwnedSemaphorePermit,
    ) -> (Self, ReplyReceiver<T>) {
        let (reply, receiver) = oneshot::channel();
        (Self { work, cost, runs_left, result: None, reply, _permit: permit }, receiver)
    }
}

impl<T, F> DatabaseRequest for ClosureRequest<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T, RequestError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), RequestError> {
        if self.runs_left == RunsLeft::One {
            self.runs_left = RunsLeft::Zero;
        }
        if self.cost.skip_if_abandoned && self.reply.is_closed() {
            return Ok(());
        }
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn reply(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { result, reply, .. } = *self;
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(thread_stopped)));
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn runs_left(&self) -> RunsLeft {
        self.runs_left
    }
}

pub(crate) fn thread_stopped() -> Error {
    Error::Unavailable { message: "the database thread has stopped".into(), source: None }
}
