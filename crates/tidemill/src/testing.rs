//! Helpers for tests of programs that use Tidemill: an in-memory store and a paused clock.
//! [`Worker::drain`](crate::Worker::drain) runs all due jobs and returns.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use tidemill::{Fail, Job, Worker, mins, testing};
//! # #[derive(Serialize, Deserialize)]
//! # struct Remind;
//! # impl Job for Remind { const KIND: &'static str = "remind"; type Output = (); }
//! # async fn remind(_: Remind) -> Result<(), Fail> { Ok(()) }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (client, clock) = testing::paused().await?;
//! client.job(Remind).delay(mins(5)).enqueue().await?;
//! let worker = || Worker::builder(&client).handle(remind).queue("default", 1);
//!
//! assert_eq!(worker().drain().await?.total.done, 0);   // not due yet
//! clock.advance(mins(5));
//! assert_eq!(worker().drain().await?.total.done, 1);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use tidemill_core::{Client, Error, Timestamp};
pub use tidemill_sqlite::PausedClock;
use tidemill_sqlite::{SqliteOptions, SqliteStore};

/// A client with an in-memory store.
///
/// # Errors
/// The store's error.
///
/// # Cancel safety
/// Cancel safe.
pub async fn memory() -> Result<Client, Error> {
    Ok(Client::new(Arc::new(SqliteStore::open(SqliteOptions::memory()).await?)))
}

/// A client with an in-memory store whose clock is paused until the test advances it.
///
/// # Errors
/// The store's error.
///
/// # Cancel safety
/// Cancel safe.
pub async fn paused() -> Result<(Client, PausedClock), Error> {
    let clock = PausedClock::new(Timestamp::now());
    let options = SqliteOptions::memory().clock(Arc::new(clock.clone()));
    Ok((Client::new(Arc::new(SqliteStore::open(options).await?)), clock))
}
