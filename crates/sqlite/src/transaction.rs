//! Transactions with the user's own work in them: on a connection of the user's, or on the writer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;
use tidemill_core::chain::IntoCompletion;
use tidemill_core::name::{JobId, Queue};
use tidemill_core::store::{
    CompleteParams, Completed, EnqueueParams, Enqueued, JobInfo, NewJob, reserved_ids,
};
use tidemill_core::transaction::Done;
use tidemill_core::wake::WakeSet;
use tidemill_core::{Error, Outcome, Store};

use crate::atomic::Atomic;
use crate::call::{Cost, Tx};
use crate::chains::complete_one;
use crate::error::Failure;
use crate::inspect;
use crate::jobs::add_all;
use crate::promises::{Pending, Promises};
use crate::savepoint::apart;
use crate::store::SqliteStore;

/// About how many rows a piece of the user's work changes: so many pieces fit into one transaction that the sync to
/// disk no longer matters.
pub(crate) const ROWS: usize = 8;

/// Why work in a transaction did not take place.
#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The work said so.
    #[error("{0}")]
    Work(E),
    /// The work panicked.
    #[error("the work in the transaction panicked: {0}")]
    Panicked(String),
    /// The store failed. [`Error::Unavailable`] means that it is not known whether the work took place.
    #[error(transparent)]
    Store(#[from] Error),
}

impl SqliteStore {
    /// Adds jobs in a transaction of the user's own, on a connection of the user's own to the same file: they are there
    /// if and when it commits. On an error none of them is, and the transaction can go on.
    ///
    /// Nothing is announced; pass what comes with the answer to [`announce`](Self::announce) after the commit. The
    /// transaction should be an immediate one, because SQLite refuses the write lock to one that has read before somebody else wrote. Until it has
    /// ended nobody else can write, and neither can this store: do not wait for the store meanwhile.
    pub fn enqueue_in(
        &self,
        tx: &Connection,
        queue: &Queue,
        jobs: &[NewJob],
    ) -> Result<(Vec<Enqueued>, Pending), Error> {
        reserved_ids::check_new(jobs)?;
        self.take_part(tx, |tx| add_all(tx, EnqueueParams { queue, jobs }))
    }

    /// Looks up a job as a transaction of the user's own sees it.
    pub fn get_in(&self, tx: &Connection, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let (info, _) = self.take_part(tx, |tx| inspect::get_in(tx, job))?;
        Ok(info)
    }

    /// Ends a job from outside in a transaction of the user's own, like [`enqueue_in`](Self::enqueue_in).
    pub fn complete_in(
        &self,
        tx: &Connection,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, Pending), Error> {
        self.take_part(tx, |tx| complete_one(tx, &complete))
    }

    /// Wakes whoever waits, in this process, for what a transaction of the user's own has led to that has committed. Other
    /// processes notice by themselves, and so does this one a moment later if nobody calls this.
    pub fn announce(&self, mut pending: Pending) {
        pending.0.take().into_iter().for_each(|wake| self.bus().publish(wake));
    }

    /// Runs `work` in a transaction on the store's own writer, once, and commits it together with whatever else waits to
    /// be written: many callers share the price of one sync to disk. If it returns an error or panics, nothing of it has
    /// happened.
    ///
    /// It keeps everybody else from writing while it runs, so it must be short: no network, no waiting, least of all for
    /// this store. It must not end the transaction or change the connection's settings.
    pub async fn transact<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, TransactError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let promises = self.promises().clone();
        let run = move |tx: &mut Tx<'_>| {
            let connection = tx.connection;
            apart(connection, || run(tx, &promises, work))
        };
        self.write_once(Cost::growth(ROWS), run).await?
    }

    /// The end of a job together with `work`, to be returned by its handler. The worker has it run on the writer, like
    /// [`transact`](Self::transact), in one transaction with the end of the job: both take place or neither does. If the
    /// lease is lost by then, the work does not run.
    ///
    /// The work says how the job ends: with an output, by continuing, or, undone, with what it returns as an error.
    pub fn done<O: IntoCompletion>(
        &self,
        work: impl FnOnce(&Connection) -> Result<O, Outcome> + Send + 'static,
    ) -> Done<O> {
        Done::new(Box::new(Atomic::new(self.clone(), work)))
    }

    /// Does something in the user's transaction and says what there is to tell once it has committed.
    fn take_part<T>(
        &self,
        connection: &Connection,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<(T, Pending), Error> {
        self.check(connection)?;
        let mut news = WakeSet::default();
        let mut tx = Tx { connection, now: self.clock().now(), announcements: &mut news };
        let done = apart(connection, || work(&mut tx))??;
        Ok((done, self.promises().keep(connection, news)))
    }

    /// Whether what is written on this connection is written to this store, in a transaction.
    fn check(&self, connection: &Connection) -> Result<(), Error> {
        if connection.is_autocommit() {
            return Err(Error::Invalid("no transaction is open on this connection".into()));
        }
        if self.promises().is_inside(connection) {
            return Ok(());
        }
        let Some(file) = self.file() else {
            let why = "a store in memory is in no file that another connection could be to; use `transact`";
            return Err(Error::Invalid(why.into()));
        };
        let path = connection.path().unwrap_or_default();
        if is_same(Path::new(path), file) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the connection is to `{path}`, and this store is in `{}`",
            file.display()
        )))
    }
}

fn is_same(path: &Path, file: &Path) -> bool {
    path == file || path.canonicalize().is_ok_and(|path| path == file)
}

/// Runs work of the user's. What it has led to is told if the transaction commits.
pub(crate) fn run<T, E>(
    tx: &mut Tx<'_>,
    promises: &Promises,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, TransactError<E>> {
    promises.enter(tx.connection);
    // Nothing of ours is in the hands of the work, so nothing of ours can be left half-way.
    let result = catch_unwind(AssertUnwindSafe(|| work(tx.connection)));
    let wakes = promises.leave();
    let done =
        result.map_err(|panic| TransactError::Panicked(text(&*panic)))?.map_err(TransactError::Work)?;
    wakes.into_iter().for_each(|wake| tx.announcements.add(wake));
    Ok(done)
}

/// What a panic says.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)").to_owned()
}
