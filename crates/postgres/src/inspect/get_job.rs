//! `get_job`: reads one job or its record.

use tidemill_core::store::JobInfo;
use tidemill_core::{Error, JobId};

use crate::Inner;
use crate::jobs::JobRow;
use crate::sql::GET_JOB;

/// How many of the chains that a job waits for are returned.
pub(crate) const MAX_NAMED_BLOCKERS: i64 = 100;

impl Inner {
    pub(crate) async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        let rows = self.pool.query(&GET_JOB, &[&job.chain().as_str(), &MAX_NAMED_BLOCKERS]).await?;
        rows.first().map(|row| JobRow::from_row(row).into_info()).transpose()
    }
}
