//! `get_worker`: reads one worker.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::WorkerInfo;

use super::row;
use crate::Inner;
use crate::sql::GET_WORKER;

pub(super) async fn get_worker(inner: &Inner, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
    let rows = inner.pool.query(&GET_WORKER, &[&worker.to_string()]).await?;
    rows.first().map(row::worker_info).transpose()
}
