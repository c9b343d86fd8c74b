//! Waiting no longer than one has time.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidemill_core::Store;

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
