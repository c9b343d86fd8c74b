//! `delete`: deletes chains with everything in them.

use tidemill_core::store::{Deleted, reserved_ids};
use tidemill_core::wake::Wake;
use tidemill_core::{Error, JobId};

use super::enqueue_dependent::no_rows;
use super::{MAX_ATTEMPTS, job_id};
use crate::Inner;
use crate::sql::DELETE_CHAIN;

impl Inner {
    /// Deletes a chain, unless a job waits for it.
    pub(crate) async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        let chain = chain.chain();
        reserved_ids::check_deletion(&chain)?;
        for _ in 0..MAX_ATTEMPTS {
            let rows = self.pool.query(&DELETE_CHAIN, &[&chain.as_str()]).await?;
            let row = rows.first().ok_or_else(no_rows)?;
            match row.get("outcome") {
                // This may be the retry of a call that deleted it.
                None => {
                    self.announce_deleted(&chain, None).await?;
                    return Ok(Deleted::NotFound);
                }
                Some("awaited") => return Ok(Deleted::Awaited(job_id(row.get("waiter"))?)),
                Some("deleted") => {
                    self.announce_deleted(&chain, row.get("lost")).await?;
                    return Ok(Deleted::Yes);
                }
                Some(_) => {}
            }
        }
        Err(Error::Unavailable {
            message: format!("chain {chain} changes state too fast to be deleted"),
            source: None,
        })
    }

    async fn announce_deleted(&self, chain: &JobId, lost: Option<&str>) -> Result<(), Error> {
        if let Some(job) = lost {
            self.bus.publish(Wake::LeaseLost(job_id(job)?));
        }
        self.bus.publish_and_flush(Wake::Finished(chain.clone())).await;
        Ok(())
    }
}
