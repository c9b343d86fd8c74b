//! `part`: removes workers from the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;

use crate::Inner;
use crate::sql::PART;

pub(super) async fn part(inner: &Inner, workers: &[WorkerKey]) -> Result<(), Error> {
    let ids: Vec<String> = workers.iter().map(WorkerKey::to_string).collect();
    inner.pool.query(&PART, &[&ids]).await.map(drop)
}
