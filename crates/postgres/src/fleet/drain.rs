//! `drain`: orders a worker to drain.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;

use super::{call, order_timeout_ms};
use crate::Inner;
use crate::sql::DRAIN;

pub(super) async fn drain(inner: &Inner, worker: &WorkerKey) -> Result<bool, Error> {
    let row = call(inner, &DRAIN, &[&worker.to_string(), &order_timeout_ms()]).await?;
    // The caller is often a command that exits at once, so this waits until the wake-up is sent.
    inner.bus.flush().await;
    Ok(row.get("was_there"))
}
