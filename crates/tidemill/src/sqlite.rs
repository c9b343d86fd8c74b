//! Transactions on a SQLite store: the user's tables and the jobs are in one file.

use tidemill_core::chain::IntoCompletion;
use tidemill_core::settle::Outcome;
use tidemill_core::transaction::Done;
use tidemill_core::{Client, Error};
pub use tidemill_sqlite::rusqlite;
use tidemill_sqlite::rusqlite::Connection;
use tidemill_sqlite::{SqliteStore, TransactError};
use tidemill_worker::{Fail, JobContext};

use crate::transaction::downcast_store;
pub use crate::transaction::sqlite::AwaitingCommit;

/// Whether the store of this client is a SQLite database.
pub fn is_store_of(client: &Client) -> bool {
    client.store().as_any().is::<SqliteStore>()
}

/// Ends a job together with `work`: one transaction commits both, or neither. The job's handler
/// returns the result.
///
/// The store's writer runs `work` after the handler has returned, if the worker still holds the
/// lease. It must be short. Its result is the job's output, or the continuation of the chain. An
/// error rolls the transaction back and becomes the error of the attempt, so `?` on a database
/// error retries the job.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use tidemill::{Fail, Job, JobContext, Worker, sqlite, transaction::Done};
/// # #[derive(Serialize, Deserialize)]
/// # struct Deposit { account: i64, amount: i64 }
/// # impl Job for Deposit { const KIND: &'static str = "deposit"; type Output = i64; }
/// async fn deposit(job: Deposit, cx: JobContext) -> Result<Done<i64>, Fail> {
///     sqlite::done(&cx, move |db| {
///         let update = "UPDATE accounts SET balance = balance + ?2 WHERE id = ?1 RETURNING balance";
///         Ok(db.query_row(update, [job.account, job.amount], |row| row.get(0))?)
///     })
/// }
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = tidemill::connect("sqlite::memory:").await?;
/// # sqlite::transact(&client, |db| Ok(db.execute_batch("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER); INSERT INTO accounts VALUES (1, 5)")?)).await.map_err(|fail| format!("{fail:?}"))?;
/// # let handle = client.job(Deposit { account: 1, amount: 2 }).enqueue().await?;
/// # Worker::builder(&client).handle(deposit).queue("default", 1).drain().await?;
/// # assert_eq!(handle.wait().await?, 7);
/// # Ok(())
/// # }
/// ```
pub fn done<O: IntoCompletion>(
    cx: &JobContext,
    work: impl FnOnce(&Connection) -> Result<O, Fail> + Send + 'static,
) -> Result<Done<O>, Fail> {
    let store = downcast_store::<SqliteStore>(cx.client(), "SQLite").map_err(wrong_store)?;
    let store = store.get().map_err(wrong_store)?;
    Ok(store.done(move |connection| work(connection).map_err(Outcome::from)))
}

/// Runs `work` in its own transaction on the store's writer. Concurrent writes share one sync to
/// disk. Use it for the first part of a staged handler, or for any other write. It must be short.
///
/// # Errors
/// The error of `work`, after a rollback; otherwise a [`Fail`] that retries, or that buries the job if
/// the store is not SQLite.
///
/// # Cancel safety
/// Not cancel safe: the writer may run `work` after the future was dropped.
pub async fn transact<T: Send + 'static>(
    client: impl AsRef<Client>,
    work: impl FnOnce(&Connection) -> Result<T, Fail> + Send + 'static,
) -> Result<T, Fail> {
    let store = downcast_store::<SqliteStore>(client.as_ref(), "SQLite").map_err(wrong_store)?;
    store.get().map_err(wrong_store)?.transact(work).await.map_err(|error| match error {
        TransactError::Work(fail) => fail,
        TransactError::Panicked(panic) => Fail::retry(panic),
        TransactError::Store(error) => error.into(),
    })
}

/// A later attempt has the same store, so a retry cannot help.
fn wrong_store(error: Error) -> Fail {
    Fail::dead("wrong_store", error)
}
