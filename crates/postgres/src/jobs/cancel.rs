//! Cancelling a job, wherever it is.

use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId};

use super::LOOKS;
use super::complete::woken;
use super::link::nothing;
use crate::Inner;
use crate::sql::CANCEL;

impl Inner {
    pub(crate) async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        reserved_ids::check_removal(job)?;
        let chain = job.chain();
        for _ in 0..LOOKS {
            if let Some(done) = self.cancel_where_it_is(&chain).await? {
                return Ok(done);
            }
        }
        Err(Error::Unavailable { message: format!("job {job} moves too fast to be cancelled"), source: None })
    }

    /// `None` if the job moved while it was looked for.
    async fn cancel_where_it_is(&self, chain: &JobId) -> Result<Option<Cancelled>, Error> {
        let rows = self.pool.query(&CANCEL, &[&chain.as_str()]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        let ended = match row.get("outcome") {
            // Whoever cancels is often a command that ends at once, so this waits until it is said.
            Some("told") => {
                let job = chain.at_step(row.get::<_, i32>("step").unsigned_abs());
                self.bus.publish_and_flush(Wake::Cancel(job)).await;
                return Ok(Some(Cancelled::Requested));
            }
            None => Cancelled::NotFound,
            Some("2") => Cancelled::Ended(JobState::Dead),
            Some("3") => Cancelled::Ended(JobState::Done),
            Some("4") => Cancelled::Ended(JobState::Cancelled),
            Some("removed") => Cancelled::Removed,
            Some(_) => return Ok(None),
        };
        // Also of a job that is gone: the call that removed it may have been this one, and its answer lost.
        self.announce_woken(woken(row)).await;
        self.bus.publish_and_flush(Wake::Finished(chain.clone())).await;
        Ok(Some(ended))
    }
}
