//! Waiting no longer than one has time, and repeating a call whose answer was lost.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidemill_core::{Error, Store};

/// How a call that got no answer is repeated. Every one of them has an id, so that twice is once.
const REPEAT_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// The answer of a call that may be repeated.
pub(super) async fn surely<T, F>(store: &dyn Store, mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for rest in REPEAT_AFTER {
        match call().await {
            Err(Error::Unavailable { .. }) => store.clock().sleep(rest).await,
            answer => return answer,
        }
    }
    call().await
}

/// The first of an answer and the end of the time it has.
pub(super) async fn within<T>(
    store: &dyn Store,
    limit: Duration,
    answer: impl Future<Output = T> + Send,
) -> Option<T> {
    match select(Box::pin(answer), store.clock().sleep(limit)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}
