//! Cancelling: find where the job is, then act if it is still there.

use tidemill_core::job::JobState;
use tidemill_core::store::{Cancelled, reserved_ids};
use tidemill_core::{Error, JobId};

use crate::jobs::locate::Place;
use crate::jobs::{TRIES, keeps_moving};
use crate::runs::push_removal;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn cancel_job(&self, job: &JobId) -> Result<Cancelled, Error> {
        reserved_ids::check_removal(job)?;
        for _ in 0..TRIES {
            let Some(place) = self.locate(job).await? else {
                if self.cancel_untracked(job).await? {
                    return Ok(Cancelled::Requested);
                }
                let record = self.find_record(job).await?;
                return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
            };
            if place.is_dead() {
                return Ok(Cancelled::Ended(JobState::Dead));
            }
            match self.cancel_at(job, &place).await?.as_str() {
                "removed" => return Ok(Cancelled::Removed),
                "requested" => return Ok(Cancelled::Requested),
                _ => self.missed(job, &place).await?,
            }
        }
        Err(keeps_moving(job))
    }

    /// Cancels a job if it is where it was seen; says `removed`, `requested` or `moved`.
    pub(crate) async fn cancel_at(&self, job: &JobId, place: &Place) -> Result<String, Error> {
        let keys = self.keys_of_place(job, place);
        let mut call = self.call_at((&self.scripts.cancel, &keys), job, place);
        self.push_world(&mut call);
        push_removal(&mut call);
        Ok(self.act(call, place).await?.word)
    }
}
