//! `resume`: makes a paused queue claimable again.

use tidemill_core::Error;
use tidemill_core::name::Queue;

use super::pause::set_paused;
use crate::store::SqliteStore;

pub(crate) async fn resume(store: &SqliteStore, queue: &Queue) -> Result<(), Error> {
    set_paused(store, queue, false).await
}
