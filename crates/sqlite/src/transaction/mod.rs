//! Transactions that contain the user's own work: on a connection of the user's, or on the writer.

mod done;

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

use self::done::UncommittedWork;
use crate::connection::{Cost, Tx, in_savepoint};
use crate::error::RequestError;
use crate::inspect;
use crate::jobs::{complete_one, insert_all};
use crate::store::SqliteStore;
use crate::wake::{PendingWakes, PostCommitWakes};

/// About how many rows one piece of the user's work changes. With this estimate, enough pieces fit
/// into one transaction that the sync to disk is a small part of the cost.
pub(crate) const ESTIMATED_ROWS: usize = 8;

/// Why work in a transaction had no effect.
#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The work returned this error.
    #[error("{0}")]
    Work(E),
    /// The work panicked.
    #[error("the work in the transaction panicked: {0}")]
    Panicked(String),
    /// The store failed. After [`Error::Unavailable`] it is not known whether the work had its
    /// effect.
    #[error(transparent)]
    Store(#[from] Error),
}

impl SqliteStore {
    /// Adds jobs in the user's own transaction, on the user's own connection to the same file. The
    /// jobs exist if and when it commits. After an error none of them is added, and the transaction
    /// can continue.
    ///
    /// Nothing is announced. Pass the returned wake-ups to [`announce`](Self::announce) after the
    /// commit. The transaction should be an immediate one, because SQLite refuses the write lock to
    /// a transaction that has read before another connection wrote. Until it ends, no other
    /// connection can write, and neither can this store: do not wait for the store meanwhile.
    pub fn enqueue_in(
        &self,
        tx: &Connection,
        queue: &Queue,
        jobs: &[NewJob],
    ) -> Result<(Vec<Enqueued>, PendingWakes), Error> {
        reserved_ids::check_new(jobs)?;
        self.run_in(tx, |tx| insert_all(tx, EnqueueParams { queue, jobs }))
    }

    /// Looks up a job as the user's own transaction sees it.
    pub fn get_in(&self, tx: &Connection, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let (info, _) = self.run_in(tx, |tx| inspect::get_in(tx, job))?;
        Ok(info)
    }

    /// Ends a job from outside in the user's own transaction, like
    /// [`enqueue_in`](Self::enqueue_in).
    pub fn complete_in(
        &self,
        tx: &Connection,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, PendingWakes), Error> {
        self.run_in(tx, |tx| complete_one(tx, &complete))
    }

    /// Publishes the wake-ups of a committed transaction of the user's in this process. Other
    /// processes detect the write themselves, and so does this one a moment later without this
    /// call.
    pub fn announce(&self, mut pending: PendingWakes) {
        pending.0.take().into_iter().for_each(|wake| self.bus().publish(wake));
    }

    /// Runs `work` once, in a transaction on the store's own writer, and commits it together with
    /// other queued requests: many callers share one sync to disk. If it returns an error or
    /// panics, it has no effect.
    ///
    /// It blocks all other writes while it runs, so it must be short: no network and no waiting,
    /// least of all for this store. It must not end the transaction or change the connection's
    /// settings.
    pub async fn transact<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, TransactError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let wakes = self.post_commit_wakes().clone();
        let run = move |tx: &mut Tx<'_>| {
            let connection = tx.connection;
            in_savepoint(connection, || run(tx, &wakes, work))
        };
        self.write_once(Cost::growth(ESTIMATED_ROWS), run).await?
    }

    /// A job's end together with `work`, to be returned by the job's handler. The worker runs it on
    /// the writer, like [`transact`](Self::transact), in one transaction with the end of the job:
    /// both take effect or neither does. If the lease is lost by then, the work does not run.
    ///
    /// The work returns how the job ends: with an output or by continuing. If it returns an error,
    /// its changes are rolled back and the job ends with that outcome.
    pub fn done<O: IntoCompletion>(
        &self,
        work: impl FnOnce(&Connection) -> Result<O, Outcome> + Send + 'static,
    ) -> Done<O> {
        Done::new(Box::new(UncommittedWork::new(self.clone(), work)))
    }

    /// Runs `work` in the user's transaction, and returns the wake-ups to publish after its commit.
    fn run_in<T>(
        &self,
        connection: &Connection,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, RequestError>,
    ) -> Result<(T, PendingWakes), Error> {
        self.check(connection)?;
        let mut wakes = WakeSet::default();
        let mut tx = Tx { connection, now: self.clock().now(), wakes: &mut wakes };
        let done = in_savepoint(connection, || work(&mut tx))??;
        Ok((done, self.post_commit_wakes().keep(connection, wakes)))
    }

    /// Checks that the connection has an open transaction on the file of this store.
    fn check(&self, connection: &Connection) -> Result<(), Error> {
        if connection.is_autocommit() {
            return Err(Error::Invalid("no transaction is open on this connection".into()));
        }
        if self.post_commit_wakes().is_running_on(connection) {
            return Ok(());
        }
        let Some(file) = self.file() else {
            let why = "a store in memory has no file that another connection could open; use `transact`";
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

/// Runs the user's work. Its wake-ups are published if the transaction commits.
pub(crate) fn run<T, E>(
    tx: &mut Tx<'_>,
    post_commit_wakes: &PostCommitWakes,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, TransactError<E>> {
    post_commit_wakes.enter(tx.connection);
    // The work has no access to state of ours, so a panic leaves none of it inconsistent.
    let result = catch_unwind(AssertUnwindSafe(|| work(tx.connection)));
    let wakes = post_commit_wakes.leave();
    let done = result
        .map_err(|panic| TransactError::Panicked(panic_message(&*panic)))?
        .map_err(TransactError::Work)?;
    wakes.into_iter().for_each(|wake| tx.wakes.add(wake));
    Ok(done)
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)").to_owned()
}
