//! A timeout on the store's clock.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidemill_core::Store;

/// The output of `future`, or `None` if `limit` has passed first.
pub(super) async fn with_timeout<T>(
    store: &dyn Store,
    limit: Duration,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    match select(Box::pin(future), store.clock().sleep(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
