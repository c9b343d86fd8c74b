//! `drop_dead`: deletes dead letters.

use tidemill_core::{Error, JobId, Queue};

use super::complete::wake_texts;
use super::enqueue_dependent::no_rows;
use crate::Inner;
use crate::sql::DROP_DEAD;

impl Inner {
    pub(crate) async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let chains: Vec<JobId> = jobs.iter().filter(|job| !job.is_task()).map(JobId::chain).collect();
        let chains: Vec<&str> = chains.iter().map(JobId::as_str).collect();
        let Some(queue_id) = self.find_queue_id(queue).await? else { return Ok(0) };
        let rows = self.pool.query(&DROP_DEAD, &[&queue_id, &chains]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.announce_texts(wake_texts(row)).await;
        Ok(u64::try_from(row.get::<_, i64>("dropped")).unwrap_or(0))
    }
}
