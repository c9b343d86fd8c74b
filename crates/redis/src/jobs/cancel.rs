//! Cancelling: find where the job is, then act if it is still there.

use tidemill_core::job::State;
use tidemill_core::store::Cancelled;
use tidemill_core::{Error, JobId};

use crate::error::odd_answer;
use crate::link::Call;
use crate::search::Place;
use crate::store::RedisStore;
use crate::value::text;

/// A job that moves between the look and the act is looked for again, this often.
const TRIES: usize = 8;

impl RedisStore {
    pub(crate) async fn cancel_job(&self, job: &JobId) -> Result<Cancelled, Error> {
        for _ in 0..TRIES {
            let Some(place) = self.locate(job).await? else {
                let record = self.find_record(job).await?;
                return Ok(record.map_or(Cancelled::NotFound, |record| Cancelled::Ended(record.state)));
            };
            if place.is_dead() {
                return Ok(Cancelled::Ended(State::Dead));
            }
            match self.cancel_at(job, &place).await?.as_str() {
                "removed" => return Ok(Cancelled::Removed),
                "requested" => return Ok(Cancelled::Requested),
                _ => {}
            }
        }
        Err(Error::Unavailable { message: format!("job {job} keeps moving"), source: None })
    }

    async fn cancel_at(&self, job: &JobId, place: &Place) -> Result<String, Error> {
        let (shard, queue) = (place.shard, &place.queue);
        let keys = [
            self.keys.jobs(shard),
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.cancelled(shard, queue),
            self.keys.lock(shard, queue, job),
            self.keys.dropped(shard, queue),
        ];
        let call = Call::new(&self.scripts.cancel, &keys)
            .arg(job.as_str())
            .arg(&place.indexed[..])
            .arg(place.letter.to_string())
            .arg(&place.reference[..])
            .arg(self.group(queue))
            .arg(self.keys.channel());
        text(self.link.call(shard, call).await?).ok_or_else(|| odd_answer("cancel"))
    }
}
