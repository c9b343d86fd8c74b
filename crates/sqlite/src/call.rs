//! A piece of work on its way to a database thread, and its answer on the way back.

use tidemill_core::wake::{Wake, WakeSet};
use tidemill_core::{Error, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::error::Failure;
use crate::wake::Announcements;

/// What a piece of work has at hand.
pub(crate) struct Tx<'t> {
    /// The connection, inside a transaction.
    pub(crate) connection: &'t rusqlite::Connection,
    /// The store's time, the same for the whole transaction.
    pub(crate) now: Timestamp,
    /// What to tell the world once it has committed.
    pub(crate) announcements: &'t mut dyn Tell,
}

/// Where a piece of work leaves what is to be told.
pub(crate) trait Tell {
    fn add(&mut self, wake: Wake);
}

impl Tell for Announcements {
    fn add(&mut self, wake: Wake) {
        Self::add(self, wake);
    }
}

impl Tell for WakeSet {
    fn add(&mut self, wake: Wake) {
        Self::add(self, wake);
    }
}

/// A piece of work.
pub(crate) trait Call: Send {
    /// Does the work and keeps the answer back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failure>;

    /// Gives the answer: what the last run came to if `outcome` is good, else why not. Nobody may be there
    /// to hear it.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);

    /// What it costs.
    fn cost(&self) -> Cost;

    /// How often it may still run.
    fn runs(&self) -> Runs;
}

/// How often a piece of work may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Any number of times: together with others and, if that failed, on its own. A run that fails may leave
    /// something behind.
    Any,
    /// Once. A run that fails leaves nothing behind.
    Once,
    /// It has run.
    Spent,
}

/// What a piece of work costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    rows: usize,
    grows: bool,
    lasts: bool,
    for_caller: bool,
}

impl Cost {
    /// It makes the database larger, by about so many rows: not to be had while the disk is full.
    pub(crate) const fn growth(rows: usize) -> Self {
        Self { rows, grows: true, lasts: true, for_caller: false }
    }

    /// It changes about so many rows, or removes them.
    pub(crate) const fn change(rows: usize) -> Self {
        Self { rows, grows: false, lasts: true, for_caller: false }
    }

    /// Everybody says it again by themselves, so it need not survive a power cut and does not wait for the disk. (What a
    /// process has written survives the process all the same.)
    pub(crate) const fn fleeting(self) -> Self {
        Self { lasts: false, ..self }
    }

    /// It is of use to its caller alone, and is not done if the caller has stopped waiting: nobody would run what a claim
    /// takes.
    pub(crate) const fn for_caller(self) -> Self {
        Self { for_caller: true, ..self }
    }

    pub(crate) const fn is_growth(self) -> bool {
        self.grows
    }

    /// Whether it has to be on disk when it is answered.
    pub(crate) const fn lasts(self) -> bool {
        self.lasts
    }

    /// About how many rows it touches.
    pub(crate) const fn rows(self) -> usize {
        self.rows
    }
}

/// A call made of a closure.
pub(crate) struct Work<T, F> {
    work: F,
    cost: Cost,
    runs: Runs,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
    /// Frees the caller's place in the line when the call is over.
    _turn: OwnedSemaphorePermit,
}

/// Where the answer to a call arrives.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, Error>>;

impl<T, F> Work<T, F> {
    pub(crate) fn new(cost: Cost, runs: Runs, work: F, turn: OwnedSemaphorePermit) -> (Self, Answer<T>) {
        let (reply, answer) = oneshot::channel();
        (Self { work, cost, runs, result: None, reply, _turn: turn }, answer)
    }
}

impl<T, F> Call for Work<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T, Failure> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failure> {
        if self.runs == Runs::Once {
            self.runs = Runs::Spent;
        }
        if self.cost.for_caller && self.reply.is_closed() {
            return Ok(());
        }
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { result, reply, .. } = *self;
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(stopped)));
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn runs(&self) -> Runs {
        self.runs
    }
}

pub(crate) fn stopped() -> Error {
    Error::Unavailable { message: "the database thread has stopped".into(), source: None }
}
