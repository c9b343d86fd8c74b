//! `list_waiting`: how many sessions wait, by kind and offer.

use tidemill_core::Error;
use tidemill_core::store::fleet::WaitingInfo;

use super::{all, row};
use crate::store::SqliteStore;

pub(super) async fn list_waiting(store: &SqliteStore) -> Result<Vec<WaitingInfo>, Error> {
    let list = sql!("fleet/list_waiting");
    store.read(move |tx| all(tx, list, [tx.now.0], row::waiting_info)).await
}
