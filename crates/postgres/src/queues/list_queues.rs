//! `list_queues`: all queues with their counts.

use tidemill_core::Error;
use tidemill_core::store::{COUNT_CAP, QueueInfo};
use tokio_postgres::Row;

use crate::Inner;
use crate::jobs::queue;
use crate::sql::LIST_QUEUES;

impl Inner {
    pub(crate) async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let cap = i64::try_from(COUNT_CAP).unwrap_or(i64::MAX);
        let rows = self.pool.query(&LIST_QUEUES, &[&cap]).await?;
        rows.iter().map(queue_info_from_row).collect()
    }
}

fn queue_info_from_row(row: &Row) -> Result<QueueInfo, Error> {
    let count = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Ok(QueueInfo {
        queue: queue(row.get("name"), row.get("delivery"))?,
        ready: count("ready"),
        scheduled: count("scheduled"),
        blocked: count("blocked"),
        running: count("running"),
        dead: count("dead"),
        paused: row.get("paused"),
        problems: Vec::new(),
    })
}
