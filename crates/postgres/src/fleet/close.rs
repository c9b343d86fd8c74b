//! `close`: asks the holder of a session to end it.

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;

use super::{call, order_timeout_ms};
use crate::Inner;
use crate::sql::CLOSE;

pub(super) async fn close(inner: &Inner, session: &SessionId) -> Result<bool, Error> {
    let row = call(inner, &CLOSE, &[&session.as_str(), &order_timeout_ms()]).await?;
    // The caller is often a command that exits at once, so this waits until the wake-up is sent.
    inner.bus.flush().await;
    Ok(row.get("was_there"))
}
