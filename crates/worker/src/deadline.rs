//! A deadline for every store call, so that a call without an answer never blocks a part of the
//! worker.

use std::future::Future;
use std::time::Duration;

use tidemill_core::Error;

/// The time limit of a store call that does not wait for jobs. Stores have limits of their own;
/// this one applies if theirs fail.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of `call`, or an error if it takes longer than `limit`. Measured in real time,
/// because a store that hangs may have stopped its clock.
pub(crate) async fn with_timeout<T>(
    limit: Duration,
    what: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("{what} was not answered within {limit:?}");
            Err(Error::Unanswered { message, source: None })
        }
    }
}
