//! Transactions on a PostgreSQL store: the user's tables and the jobs are in one database.

use tidemill_core::{Client, Error};
use tidemill_postgres::PostgresStore;
#[cfg(feature = "sqlx")]
pub use tidemill_postgres::sqlx;
pub use tidemill_postgres::{Tx, tokio_postgres};

use crate::transaction::downcast_store;
pub use crate::transaction::postgres::AwaitingCommit;

/// Whether the store of this client is a PostgreSQL database.
pub fn is_store_of(client: &Client) -> bool {
    client.store().as_any().is::<PostgresStore>()
}

/// Begins a transaction on a connection of the store. The database's own settings apply, not the
/// store's: the user's search path and planner settings. Dropping the transaction rolls it back.
///
/// A handler that returns [`tx.done(output)`](Tx::done) commits its work and the end of its job
/// together, or neither:
///
/// ```no_run
/// # use serde::{Deserialize, Serialize};
/// # use tidemill::{Fail, Job, JobContext, postgres, transaction::Done};
/// # #[derive(Serialize, Deserialize)]
/// # struct Deposit { account: i64, amount: i64 }
/// # impl Job for Deposit { const KIND: &'static str = "deposit"; type Output = i64; }
/// async fn deposit(job: Deposit, cx: JobContext) -> Result<Done<i64>, Fail> {
///     let tx = postgres::begin(&cx).await?;
///     let update = "UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance";
///     let row = tx.query_one(update, &[&job.account, &job.amount]).await?;
///     Ok(tx.done(row.get(0)))
/// }
/// ```
///
/// # Errors
/// [`Error::Invalid`] if the store is not PostgreSQL; otherwise the store's error.
///
/// # Cancel safety
/// Cancel safe.
pub async fn begin(client: impl AsRef<Client>) -> Result<Tx, Error> {
    downcast_store::<PostgresStore>(client.as_ref(), "PostgreSQL")?.get()?.begin().await
}
