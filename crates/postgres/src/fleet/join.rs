//! `join`: enters workers into the fleet.

use tidemill_core::Error;
use tidemill_core::store::fleet::WorkerEntry;

use super::call;
use super::worker_columns::WorkerColumns;
use crate::Inner;
use crate::sql::JOIN;

pub(super) async fn join(inner: &Inner, workers: &[WorkerEntry]) -> Result<(), Error> {
    if workers.is_empty() {
        return Ok(());
    }
    call(inner, &JOIN, &WorkerColumns::new(workers)?.params()).await.map(drop)
}
