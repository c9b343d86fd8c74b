//! `release`: ends sessions, or the wait for one.

use tidemill_core::Error;
use tidemill_core::store::fleet::ReleaseParams;

use super::{call, order_timeout_ms};
use crate::Inner;
use crate::sql::RELEASE;

pub(super) async fn release(inner: &Inner, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
    if release.is_empty() {
        return Ok(Vec::new());
    }
    let sessions: Vec<&str> = release.iter().map(|release| release.session.as_str()).collect();
    let holders: Vec<&str> = release.iter().map(|release| release.holder.as_str()).collect();
    let row = call(inner, &RELEASE, &[&sessions, &holders, &order_timeout_ms()]).await?;
    Ok(row.get("ended"))
}
