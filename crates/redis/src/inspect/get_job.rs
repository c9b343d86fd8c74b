//! Reading one job.

use bytes::Bytes;
use redis::{Pipeline, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, JobRecord};
use tidemill_core::{Error, JobId, Timestamp};

use super::{list_jobs as page, record};
use crate::connection::reply::{RunningEntry, array, bytes, entries, int};
use crate::error::classify;
use crate::jobs::locate::{JobLocation, job_id_in};
use crate::store::RedisStore;

/// How often to look for a job that moves meanwhile.
const MAX_LOOKUPS: usize = 5;

/// How many pops are searched for a job.
const MAX_SCANNED_POPS: usize = 256;

impl RedisStore {
    pub(crate) async fn find_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        for _ in 0..MAX_LOOKUPS {
            match self.locate(job).await? {
                None => {
                    return match self.find_record(job).await? {
                        Some(record) => Ok(Some(info_from_record(job, record))),
                        None => self.find_untracked(job).await,
                    };
                }
                Some(location) => {
                    if let Some(info) = self.info_at(job, &location).await? {
                        return Ok(Some(info));
                    }
                    match self.repair_if_lost(job, &location).await {
                        // A user with read permissions only cannot repair.
                        Err(Error::Denied(_)) => {}
                        repaired => repaired?,
                    }
                }
            }
        }
        Ok(None)
    }

    pub(crate) async fn find_record(&self, job: &JobId) -> Result<Option<JobRecord>, Error> {
        let shard = self.keys.shard_of(job);
        let command = redis::cmd("GET").arg(self.keys.record(shard, job)).take();
        let value: Value = self.connections.query(shard, &command).await?;
        bytes(value).map(|value| record::read(&job.chain(), &value)).transpose()
    }

    async fn info_at(&self, job: &JobId, location: &JobLocation) -> Result<Option<JobInfo>, Error> {
        let base = page::empty_info(job.clone(), &location.queue, JobState::Ready);
        let info = match location.letter {
            Some('s') => self.entry_info(base, location).await?,
            Some('d' | 'D') => self.dead_letter_info(base, location).await?,
            Some('S' | 'L') => self.scheduled_info(base, location).await?,
            Some('b') => self.blocked_info(base, location).await?,
            _ => Some(self.list_job_info(job, location).await?),
        };
        // The chain may have continued since the requested step.
        Ok(info
            .map(|info| JobInfo { job: job_id_in(&info.data).unwrap_or_else(|| info.job.clone()), ..info }))
    }

    async fn blocked_info(&self, base: JobInfo, location: &JobLocation) -> Result<Option<JobInfo>, Error> {
        let id = location.wait_id().unwrap_or_default();
        let wait = self.blocked_jobs(location.shard, &[id], page::MAX_SHOWN_CHAINS).await?.pop().flatten();
        Ok(wait.map(|wait| page::info_from_blocked(wait, base)))
    }

    async fn entry_info(&self, base: JobInfo, location: &JobLocation) -> Result<Option<JobInfo>, Error> {
        let (shard, queue) = (location.shard, &location.queue);
        let target = self.keys.target(shard, queue);
        let entry = &location.reference[..];
        let mut batch = Pipeline::new();
        batch.cmd("XRANGE").arg(&target).arg(entry).arg(entry);
        // Under its chain, or under its entry if it is not in the index.
        let chain = base.job.chain();
        batch.cmd("HMGET").arg(self.keys.cancelled(shard, queue)).arg(chain.as_str()).arg(entry);
        let replies =
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("XRANGE", error))?;
        let mut replies = replies.into_iter();
        let Some(found) = entries(replies.next().unwrap_or(Value::Nil))?.pop() else { return Ok(None) };
        let cancellations = replies.next().and_then(array).unwrap_or_default();
        let cancelling = cancellations.into_iter().any(|value| bytes(value).is_some());
        let position = self.stream_position(shard, queue, Some(entry)).await?;
        if position.holder.is_none() && position.covers(found.token) {
            // Another program has acknowledged it: it is done.
            return Ok(None);
        }
        let state = if position.holder.is_some() { JobState::Running } else { JobState::Ready };
        let holder = position.holder;
        Ok(Some(JobInfo { state, data: found.data, held_by: holder, cancelling, ..base }))
    }

    async fn dead_letter_info(
        &self,
        base: JobInfo,
        location: &JobLocation,
    ) -> Result<Option<JobInfo>, Error> {
        let entry = &location.reference[..];
        let dlq = self.keys.dlq(location.shard, &location.queue);
        let range = redis::cmd("XRANGE").arg(dlq).arg(entry).arg(entry).take();
        let found = entries(self.connections.query(location.shard, &range).await?)?.pop();
        Ok(found.map(|letter| JobInfo { state: JobState::Dead, data: letter.data, ..base }))
    }

    async fn scheduled_info(&self, base: JobInfo, location: &JobLocation) -> Result<Option<JobInfo>, Error> {
        let scheduled = self.keys.scheduled(location.shard, &location.queue);
        let command = redis::cmd("ZSCORE").arg(scheduled).arg(&location.reference[..]).take();
        let Some(due) = self.connections.query::<Option<f64>>(location.shard, &command).await? else {
            return Ok(None);
        };
        #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
        let due = Some(Timestamp(due as i64));
        Ok(Some(JobInfo { state: JobState::Scheduled, data: location.reference.clone(), due, ..base }))
    }

    /// A job in a list, or taken from it. Its envelope is in the list, or only with its worker.
    pub(crate) async fn list_job_info(&self, job: &JobId, location: &JobLocation) -> Result<JobInfo, Error> {
        let base = page::empty_info(job.clone(), &location.queue, JobState::Ready);
        let (shard, queue) = (location.shard, &location.queue);
        let mut batch = Pipeline::new();
        batch.cmd("HGET").arg(self.keys.running(shard, queue)).arg(base.job.as_str());
        batch.cmd("HEXISTS").arg(self.keys.cancelled(shard, queue)).arg(base.job.chain().as_str());
        batch.cmd("LRANGE").arg(self.keys.target(shard, queue)).arg(-1_000).arg(-1);
        let replies =
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("LRANGE", error))?;
        let mut replies = replies.into_iter();
        let running = replies.next().and_then(bytes).and_then(|value| RunningEntry::parse(&value));
        let cancelling = replies.next().as_ref().and_then(int) == Some(1);
        if let Some(RunningEntry { worker, envelope, .. }) = running {
            let (state, held_by) = (JobState::Running, Some(worker));
            return Ok(JobInfo { state, data: envelope, held_by, cancelling, ..base });
        }
        let near: Vec<Bytes> = array(replies.next().unwrap_or(Value::Nil))
            .unwrap_or_default()
            .into_iter()
            .filter_map(bytes)
            .collect();
        match near.into_iter().rev().find(|data| page::is_envelope_of(data, &base.job)) {
            Some(data) => Ok(JobInfo { data, ..base }),
            None => Ok(self.popped_copy(location, &base.job).await?.map_or_else(
                || base.clone(),
                |(worker, data)| JobInfo {
                    state: JobState::Running,
                    data,
                    held_by: Some(worker),
                    ..base.clone()
                },
            )),
        }
    }

    /// The worker that has popped a job without locking it yet, and the envelope.
    async fn popped_copy(
        &self,
        location: &JobLocation,
        job: &JobId,
    ) -> Result<Option<(String, Bytes)>, Error> {
        let (shard, queue) = (location.shard, &location.queue);
        let command =
            redis::cmd("ZRANGE").arg(self.keys.takers(shard, queue)).arg(0).arg(MAX_SCANNED_POPS - 1).take();
        for id in self.connections.query::<Vec<String>>(shard, &command).await? {
            let copies = redis::cmd("LRANGE").arg(self.keys.taken(shard, queue, &id)).arg(0).arg(-1).take();
            let copies: Vec<Value> = self.connections.query(shard, &copies).await?;
            if let Some(data) =
                copies.into_iter().filter_map(bytes).find(|data| page::is_envelope_of(data, job))
            {
                let worker = id.rsplit_once(':').map_or(id.as_str(), |(worker, _)| worker);
                return Ok(Some((worker.to_owned(), data)));
            }
        }
        Ok(None)
    }
}

fn info_from_record(job: &JobId, record: JobRecord) -> JobInfo {
    JobInfo {
        job: job.chain(),
        queue: None,
        state: record.state,
        data: Bytes::new(),
        due: None,
        held_by: None,
        cancelling: false,
        waits_for: Vec::new(),
        record: Some(record),
    }
}
