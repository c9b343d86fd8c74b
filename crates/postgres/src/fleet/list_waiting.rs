//! `list_waiting`: how many sessions wait, by kind and offer.

use tidemill_core::Error;
use tidemill_core::store::fleet::WaitingInfo;

use super::row;
use crate::Inner;
use crate::sql::LIST_WAITING;

pub(super) async fn list_waiting(inner: &Inner) -> Result<Vec<WaitingInfo>, Error> {
    inner.pool.query(&LIST_WAITING, &[]).await?.iter().map(row::waiting_info).collect()
}
