//! Looking at one job.

use bytes::Bytes;
use redis::{Pipeline, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, JobRecord};
use tidemill_core::{Error, JobId, Timestamp};

use super::{list_jobs as page, record};
use crate::connection::reply::{Trace, array, bytes, entries, int};
use crate::error::classify;
use crate::jobs::locate::{Place, id_in};
use crate::store::RedisStore;

/// A job that moves while it is looked at is looked for again, this often.
const TRIES: usize = 5;

/// How many pops are looked through for a job.
const POPS_SHOWN: usize = 256;

impl RedisStore {
    pub(crate) async fn find_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        for _ in 0..TRIES {
            match self.locate(job).await? {
                None => {
                    return match self.find_record(job).await? {
                        Some(record) => Ok(Some(recorded(job, record))),
                        None => self.find_untracked(job).await,
                    };
                }
                Some(place) => {
                    if let Some(info) = self.look_at(job, &place).await? {
                        return Ok(Some(info));
                    }
                    match self.missed(job, &place).await {
                        // A user who may only read repairs nothing.
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
        let ask = redis::cmd("GET").arg(self.keys.record(shard, job)).take();
        let value: Value = self.link.query(shard, &ask).await?;
        bytes(value).map(|value| record::read(&job.chain(), &value)).transpose()
    }

    async fn look_at(&self, job: &JobId, place: &Place) -> Result<Option<JobInfo>, Error> {
        let base = page::blank(job.clone(), &place.queue, JobState::Ready);
        let info = match place.letter {
            Some('s') => self.look_at_entry(base, place).await?,
            Some('d' | 'D') => self.look_at_letter(base, place).await?,
            Some('S' | 'L') => self.look_at_scheduled(base, place).await?,
            Some('b') => self.look_at_blocked(base, place).await?,
            _ => Some(self.taken(job, place).await?),
        };
        // The chain may have gone on since the step that was asked for.
        Ok(info.map(|info| JobInfo { job: id_in(&info.data).unwrap_or_else(|| info.job.clone()), ..info }))
    }

    async fn look_at_blocked(&self, base: JobInfo, place: &Place) -> Result<Option<JobInfo>, Error> {
        let mark = place.mark().unwrap_or_default();
        let wait = self.waits(place.shard, &[mark], page::CHAINS_SHOWN).await?.pop().flatten();
        Ok(wait.map(|wait| page::blocked(wait, base)))
    }

    async fn look_at_entry(&self, base: JobInfo, place: &Place) -> Result<Option<JobInfo>, Error> {
        let (shard, queue) = (place.shard, &place.queue);
        let target = self.keys.target(shard, queue);
        let entry = &place.reference[..];
        let mut batch = Pipeline::new();
        batch.cmd("XRANGE").arg(&target).arg(entry).arg(entry);
        // Under its chain, or under its entry if it is not in the index.
        let chain = base.job.chain();
        batch.cmd("HMGET").arg(self.keys.cancelled(shard, queue)).arg(chain.as_str()).arg(entry);
        let answer = self.link.pipeline(shard, &batch).await.map_err(|error| classify("XRANGE", error))?;
        let mut answer = answer.into_iter();
        let Some(found) = entries(answer.next().unwrap_or(Value::Nil))?.pop() else { return Ok(None) };
        let noted = answer.next().and_then(array).unwrap_or_default();
        let cancelling = noted.into_iter().any(|value| bytes(value).is_some());
        let position = self.position(shard, queue, Some(entry)).await?;
        if position.holder.is_none() && position.covers(found.token) {
            // Another program has acknowledged it: it is done.
            return Ok(None);
        }
        let state = if position.holder.is_some() { JobState::Running } else { JobState::Ready };
        let holder = position.holder;
        Ok(Some(JobInfo { state, data: found.data, held_by: holder, cancelling, ..base }))
    }

    async fn look_at_letter(&self, base: JobInfo, place: &Place) -> Result<Option<JobInfo>, Error> {
        let entry = &place.reference[..];
        let dlq = self.keys.dlq(place.shard, &place.queue);
        let range = redis::cmd("XRANGE").arg(dlq).arg(entry).arg(entry).take();
        let found = entries(self.link.query(place.shard, &range).await?)?.pop();
        Ok(found.map(|letter| JobInfo { state: JobState::Dead, data: letter.data, ..base }))
    }

    async fn look_at_scheduled(&self, base: JobInfo, place: &Place) -> Result<Option<JobInfo>, Error> {
        let scheduled = self.keys.scheduled(place.shard, &place.queue);
        let ask = redis::cmd("ZSCORE").arg(scheduled).arg(&place.reference[..]).take();
        let Some(due) = self.link.query::<Option<f64>>(place.shard, &ask).await? else { return Ok(None) };
        #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
        let due = Some(Timestamp(due as i64));
        Ok(Some(JobInfo { state: JobState::Scheduled, data: place.reference.clone(), due, ..base }))
    }

    /// A job in a list, or taken from it. Its envelope is somewhere in the list, or only with its runner.
    pub(crate) async fn taken(&self, job: &JobId, place: &Place) -> Result<JobInfo, Error> {
        let base = page::blank(job.clone(), &place.queue, JobState::Ready);
        let (shard, queue) = (place.shard, &place.queue);
        let mut batch = Pipeline::new();
        batch.cmd("HGET").arg(self.keys.running(shard, queue)).arg(base.job.as_str());
        batch.cmd("HEXISTS").arg(self.keys.cancelled(shard, queue)).arg(base.job.chain().as_str());
        batch.cmd("LRANGE").arg(self.keys.target(shard, queue)).arg(-1_000).arg(-1);
        let answer = self.link.pipeline(shard, &batch).await.map_err(|error| classify("LRANGE", error))?;
        let mut answer = answer.into_iter();
        let trace = answer.next().and_then(bytes).and_then(|value| Trace::read(&value));
        let cancelling = answer.next().as_ref().and_then(int) == Some(1);
        if let Some(Trace { worker, envelope, .. }) = trace {
            let (state, held_by) = (JobState::Running, Some(worker));
            return Ok(JobInfo { state, data: envelope, held_by, cancelling, ..base });
        }
        let near: Vec<Bytes> = array(answer.next().unwrap_or(Value::Nil))
            .unwrap_or_default()
            .into_iter()
            .filter_map(bytes)
            .collect();
        match near.into_iter().rev().find(|data| page::is_of(data, &base.job)) {
            Some(data) => Ok(JobInfo { data, ..base }),
            None => Ok(self.popped(place, &base.job).await?.map_or_else(
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

    /// The worker that has popped a job and not locked it yet, and the envelope: it is about to run it, or it has died.
    async fn popped(&self, place: &Place, job: &JobId) -> Result<Option<(String, Bytes)>, Error> {
        let (shard, queue) = (place.shard, &place.queue);
        let ask = redis::cmd("ZRANGE").arg(self.keys.takers(shard, queue)).arg(0).arg(POPS_SHOWN - 1).take();
        for mark in self.link.query::<Vec<String>>(shard, &ask).await? {
            let copies = redis::cmd("LRANGE").arg(self.keys.taken(shard, queue, &mark)).arg(0).arg(-1).take();
            let copies: Vec<Value> = self.link.query(shard, &copies).await?;
            if let Some(data) = copies.into_iter().filter_map(bytes).find(|data| page::is_of(data, job)) {
                let worker = mark.rsplit_once(':').map_or(mark.as_str(), |(worker, _)| worker);
                return Ok(Some((worker.to_owned(), data)));
            }
        }
        Ok(None)
    }
}

fn recorded(job: &JobId, record: JobRecord) -> JobInfo {
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
