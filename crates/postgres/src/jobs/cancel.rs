//! `cancel`: cancels a job, whatever its state.

use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId};

use super::MAX_ATTEMPTS;
use super::complete::wake_texts;
use super::enqueue_dependent::no_rows;
use crate::Inner;
use crate::sql::CANCEL;

impl Inner {
    pub(crate) async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        reserved_ids::check_removal(job)?;
        let chain = job.chain();
        for _ in 0..MAX_ATTEMPTS {
            if let Some(done) = self.try_cancel(&chain).await? {
                return Ok(done);
            }
        }
        Err(Error::Unavailable {
            message: format!("job {job} changes state too fast to be cancelled"),
            source: None,
        })
    }

    /// Returns `None` if the job changed its state during the call.
    async fn try_cancel(&self, chain: &JobId) -> Result<Option<Cancelled>, Error> {
        let rows = self.pool.query(&CANCEL, &[&chain.as_str()]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        let ended = match row.get("outcome") {
            // The caller is often a command that exits at once, so this waits until the wake-up is
            // sent.
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
        // Also for a job that is gone: this may be the retry of a call that removed it.
        self.announce_texts(wake_texts(row)).await;
        self.bus.publish_and_flush(Wake::Finished(chain.clone())).await;
        Ok(Some(ended))
    }
}
