//! A deadline for every store call: one that never answers must not hold up a part of the worker for ever.

use std::future::Future;
use std::time::Duration;

use tidemill_core::Error;

/// How long a store may take to answer a call that does not wait for anything. Stores have deadlines of their
/// own; this one is for the day theirs fail.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer of `call`, or that there was none within `limit`. This is real time, not the store's: a store
/// that hangs may well have stopped its clock.
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
