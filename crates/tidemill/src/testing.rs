//! For the tests of programs that use Tidemill: a store in memory, a clock that stands still, and
//! [`Worker::drain`](crate::Worker::drain), which runs what is due and returns.
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
//! let (mill, clock) = testing::paused().await?;
//! mill.job(Remind).delay(mins(5)).enqueue().await?;
//! let worker = || Worker::new(&mill).handle(remind).queue("default", 1);
//!
//! assert_eq!(worker().drain().await?.total.done, 0);   // not due yet
//! clock.advance(mins(5));
//! assert_eq!(worker().drain().await?.total.done, 1);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use tidemill_core::{Error, Mill, Timestamp};
pub use tidemill_sqlite::PausedClock;
use tidemill_sqlite::{Options, SqliteStore};

/// A store in this process's memory.
pub async fn memory() -> Result<Mill, Error> {
    Ok(Mill::new(Arc::new(SqliteStore::open(Options::memory()).await?)))
}

/// A store in this process's memory whose clock stands still until it is advanced.
pub async fn paused() -> Result<(Mill, PausedClock), Error> {
    let clock = PausedClock::new(Timestamp::of_this_process());
    let options = Options::memory().clock(Arc::new(clock.clone()));
    Ok((Mill::new(Arc::new(SqliteStore::open(options).await?)), clock))
}
