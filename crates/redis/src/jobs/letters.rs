//! Dead letters: back to their queue, or gone.

use bytes::Bytes;
use tidemill_core::store::Redrive;
use tidemill_core::{DeadLetter, Envelope, Error, JobId, Queue};

use crate::keys::letter;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{entries, entry_id, int};

/// Letters walked per trip when one is looked for that has no index entry.
const PAGE: usize = 500;

impl RedisStore {
    pub(crate) async fn redrive_letters(&self, redrive: Redrive<'_>) -> Result<u64, Error> {
        let mut moved = 0;
        for (job, envelope) in redrive.letters {
            let Some((shard, entry)) = self.letter_of(redrive.queue, job).await? else { continue };
            moved += self.redrive_one((shard, redrive.queue), (&entry, job), envelope).await?;
        }
        Ok(moved)
    }

    async fn redrive_one(
        &self,
        (shard, queue): (u16, &Queue),
        (entry, job): (&str, &JobId),
        envelope: &Bytes,
    ) -> Result<u64, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.dlq(shard, queue), self.keys.jobs(shard)];
        let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
        let call = Call::new(&self.scripts.redrive, &keys)
            .arg(letter(queue))
            .arg(queue.name.as_str())
            .arg(entry)
            .arg(job.as_str())
            .arg(if tracked { "1" } else { "0" })
            .arg(&envelope[..]);
        Ok(u64::from(int(&self.link.call(shard, call).await?) == Some(1)))
    }

    pub(crate) async fn delete_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let mut dropped = 0;
        for job in jobs {
            let Some((shard, entry)) = self.letter_of(queue, job).await? else { continue };
            let keys = [self.keys.dlq(shard, queue), self.keys.jobs(shard)];
            let call = Call::new(&self.scripts.drop, &keys).arg(&entry).arg(job.as_str());
            dropped += u64::from(int(&self.link.call(shard, call).await?) == Some(1));
        }
        Ok(dropped)
    }

    /// Where a job's letter is. One that another program wrote has no index entry and is looked for.
    async fn letter_of(&self, queue: &Queue, job: &JobId) -> Result<Option<(u16, String)>, Error> {
        match self.locate_indexed(job).await? {
            Some(place) if place.is_dead() && place.queue == *queue => {
                Ok(Some((place.shard, String::from_utf8_lossy(&place.reference).into_owned())))
            }
            Some(_) => Ok(None),
            None => self.foreign_letter(queue, job).await,
        }
    }

    async fn foreign_letter(&self, queue: &Queue, job: &JobId) -> Result<Option<(u16, String)>, Error> {
        for shard in 0..self.keys.shards() {
            let mut from = "-".to_owned();
            loop {
                let mut range = redis::cmd("XRANGE");
                range.arg(self.keys.dlq(shard, queue)).arg(&from).arg("+").arg("COUNT").arg(PAGE);
                let page = entries(self.link.query(shard, &range).await?)?;
                let Some(last) = page.last().map(|entry| entry_id(entry.token)) else { break };
                let is_it =
                    |data: &Bytes| DeadLetter::read(data.clone()).is_ok_and(|letter| letter.job == *job);
                if let Some(entry) = page.into_iter().find(|entry| is_it(&entry.data)) {
                    return Ok(Some((shard, entry_id(entry.token))));
                }
                from = format!("({last}");
            }
        }
        Ok(None)
    }
}
