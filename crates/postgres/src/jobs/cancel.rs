//! Cancelling a job, wherever it is.

use tidemill_core::job::State;
use tidemill_core::store::{Cancelled, Wake};
use tidemill_core::{Error, JobId};

use crate::Inner;
use crate::sql::CANCEL;

/// How often to look for a job that moves while it is looked for. Each look that misses it means that a
/// worker has claimed or settled it in between; nobody does that a dozen times in a row.
const LOOKS: usize = 12;

impl Inner {
    pub(crate) async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        for _ in 0..LOOKS {
            if let Some(done) = self.cancel_where_it_is(job).await? {
                self.announce_cancel(job, done).await;
                return Ok(done);
            }
        }
        Err(Error::Unavailable { message: format!("job {job} moves too fast to be cancelled"), source: None })
    }

    /// `None` if the job moved while it was looked for.
    async fn cancel_where_it_is(&self, job: &JobId) -> Result<Option<Cancelled>, Error> {
        let rows = self.pool.query(&CANCEL, &[&job.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(Some(Cancelled::NotFound)) };
        Ok(match row.get::<_, i16>("state") {
            2 => Some(Cancelled::Ended(State::Dead)),
            3 => Some(Cancelled::Ended(State::Done)),
            4 => Some(Cancelled::Ended(State::Cancelled)),
            _ if row.get("removed") => Some(Cancelled::Removed),
            _ if row.get("told") => Some(Cancelled::Requested),
            _ => None,
        })
    }

    /// Whoever cancels is often a command that ends at once, so this waits until it is said.
    async fn announce_cancel(&self, job: &JobId, done: Cancelled) {
        match done {
            Cancelled::Requested => self.hub.announce_surely(Wake::Cancel(job.clone())).await,
            Cancelled::Removed => self.hub.announce_surely(Wake::Finished(job.clone())).await,
            Cancelled::Ended(_) | Cancelled::NotFound => {}
        }
    }
}
