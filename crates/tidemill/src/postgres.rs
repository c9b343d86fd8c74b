//! Transactions on a PostgreSQL store: the user's tables and the jobs are in one database.

use tidemill_core::{Client, Error};
use tidemill_postgres::PostgresStore;
#[cfg(feature = "sqlx")]
pub use tidemill_postgres::sqlx;
pub use tidemill_postgres::{Tx, tokio_postgres};

pub use crate::transaction::postgres::Promised;
use crate::transaction::store_of;

/// Whether the store of this client is a PostgreSQL database.
pub fn holds(client: &Client) -> bool {
    client.store().as_any().is::<PostgresStore>()
}

/// Begins a transaction on a connection of the store's, with the settings of the database and not of the store: the
/// user's search path, the user's planner. It is rolled back if it is dropped.
///
/// A handler that returns [`tx.done(output)`](Tx::done) has its work and its end committed together, or neither:
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
pub async fn begin(client: impl AsRef<Client>) -> Result<Tx, Error> {
    store_of::<PostgresStore>(client.as_ref(), "PostgreSQL")?.get()?.begin().await
}
