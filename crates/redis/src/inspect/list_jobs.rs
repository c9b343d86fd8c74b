//! Pages of a queue's jobs in one state. A cursor is `shard:position`.

use bytes::Bytes;
use redis::{Cmd, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, ListJobsParams, Page};
use tidemill_core::{Envelope, Error, Guarantee, JobId, Queue, Timestamp};

use crate::chains::blocked_job::BlockedJob;
use crate::connection::reply::{RunningEntry, StreamEntry, array, bytes, entries, entry_id, int, text};
use crate::error::{classify, is_no_group, unexpected_reply};
use crate::jobs::dead_letter_id;
use crate::store::RedisStore;

/// How many blockers of a job are shown.
pub(super) const MAX_SHOWN_CHAINS: usize = 100;

/// One page of one shard: its jobs, and the next position.
type ShardPage = (Vec<JobInfo>, Option<String>);

impl RedisStore {
    pub(crate) async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        let bad = || Error::Invalid("invalid cursor".into());
        let (shard, position) = match &list.cursor {
            None => (0, String::new()),
            Some(cursor) => {
                let (shard, position) = cursor.split_once(':').ok_or_else(bad)?;
                (shard.parse::<u16>().map_err(|_| bad())?, position.to_owned())
            }
        };
        if shard >= self.keys.shards() {
            return Err(bad());
        }
        let (items, next) = match (list.state, list.queue.guarantee) {
            (JobState::Dead, _) => self.page_of_letters(shard, &position, &list).await?,
            (JobState::Blocked, _) => self.page_of_blocked(shard, &position, &list).await?,
            (JobState::Scheduled, _) => self.page_of_scheduled(shard, &position, &list).await?,
            (JobState::Ready, Guarantee::AtLeastOnce) => self.page_of_ready(shard, &position, &list).await?,
            (JobState::Ready, Guarantee::AtMostOnce) => self.page_of_list(shard, &position, &list).await?,
            (JobState::Running, Guarantee::AtLeastOnce) => {
                self.page_of_pending(shard, &position, &list).await?
            }
            (JobState::Running, Guarantee::AtMostOnce) => self.page_of_taken(shard, &position, &list).await?,
            (state, _) => return Err(Error::Invalid(format!("{state} jobs are not kept in a queue"))),
        };
        let next = match next {
            Some(position) => Some(format!("{shard}:{position}")),
            None if shard + 1 < self.keys.shards() => Some(format!("{}:", shard + 1)),
            None => None,
        };
        Ok(Page { items, next })
    }

    async fn page_of_letters(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let key = self.keys.dlq(shard, list.queue);
        let page = entries(self.connections.query(shard, &range(&key, from, list.limit)).await?)?;
        let next = next_position(&page, list.limit);
        let info = |entry: StreamEntry| {
            let base = empty_info(dead_letter_id(&entry), list.queue, JobState::Dead);
            JobInfo { data: entry.data, ..base }
        };
        Ok((page.into_iter().map(info).collect(), next))
    }

    /// Ready entries follow the group's position; those before it are pending.
    async fn page_of_ready(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let key = self.keys.target(shard, list.queue);
        let from = match from {
            "" => self.stream_position(shard, list.queue, None).await?.last_read,
            from => from.to_owned(),
        };
        let page = entries(self.connections.query(shard, &range(&key, &from, list.limit)).await?)?;
        let next = next_position(&page, list.limit);
        let info = |entry: StreamEntry| info_from_envelope(entry.data, list.queue, JobState::Ready);
        Ok((page.into_iter().filter_map(info).collect(), next))
    }

    async fn page_of_pending(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let key = self.keys.target(shard, list.queue);
        let start = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
        let mut command = redis::cmd("XPENDING");
        command.arg(&key).arg(self.group(list.queue)).arg(start).arg("+").arg(list.limit);
        let reply = match self.connections.send(shard, &command).await {
            Err(error) if is_no_group(&error) => return Ok((Vec::new(), None)),
            reply => reply.map_err(|error| classify("XPENDING", error))?,
        };
        let found = array(reply).ok_or_else(|| unexpected_reply("XPENDING"))?;
        let full = found.len() == list.limit;
        let (mut items, mut last) = (Vec::new(), None);
        for item in found {
            let mut parts = array(item).unwrap_or_default().into_iter();
            let (Some(entry), holder) = (parts.next().and_then(text), parts.next().and_then(text)) else {
                continue;
            };
            let one = redis::cmd("XRANGE").arg(&key).arg(&entry).arg(&entry).take();
            let body = entries(self.connections.query(shard, &one).await?)?.pop();
            let info = body.and_then(|body| info_from_envelope(body.data, list.queue, JobState::Running));
            items.extend(info.map(|info| JobInfo { held_by: holder, ..info }));
            last = Some(entry);
        }
        Ok((items, last.filter(|_| full)))
    }

    async fn page_of_scheduled(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let offset: usize = from.parse().unwrap_or(0);
        let mut command = redis::cmd("ZRANGE");
        command
            .arg(self.keys.scheduled(shard, list.queue))
            .arg(offset)
            .arg(offset + list.limit - 1)
            .arg("WITHSCORES");
        let found: Vec<Value> = self.connections.query(shard, &command).await?;
        let full = found.len() == list.limit * 2;
        let mut items = Vec::new();
        let mut found = found.into_iter();
        while let (Some(member), Some(score)) = (found.next(), found.next()) {
            let info =
                bytes(member).and_then(|data| info_from_envelope(data, list.queue, JobState::Scheduled));
            items.extend(info.map(|info| JobInfo { due: due(&score), ..info }));
        }
        Ok((items, full.then(|| (offset + list.limit).to_string())))
    }

    async fn page_of_blocked(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let offset: usize = from.parse().unwrap_or(0);
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.keys.blocked(shard, list.queue)).arg(offset).arg(offset + list.limit - 1);
        let members: Vec<String> = self.connections.query(shard, &command).await?;
        let wait_ids: Vec<&str> =
            members.iter().filter_map(|member| Some(member.split_once(' ')?.1)).collect();
        let waits = self.blocked_jobs(shard, &wait_ids, MAX_SHOWN_CHAINS).await?;
        let info = |blocked_job: BlockedJob| {
            let base = empty_info(blocked_job.job.clone(), list.queue, JobState::Blocked);
            info_from_blocked(blocked_job, base)
        };
        let items = waits.into_iter().flatten().map(info).collect();
        Ok((items, (members.len() == list.limit).then(|| (offset + list.limit).to_string())))
    }

    /// A list is read from its right end, where the oldest job is.
    async fn page_of_list(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let offset: i64 = from.parse().unwrap_or(0);
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys.target(shard, list.queue)).arg(-(offset + limit)).arg(-(offset + 1));
        let found: Vec<Value> = self.connections.query(shard, &command).await?;
        let full = found.len() == list.limit;
        let info = |value| info_from_envelope(bytes(value)?, list.queue, JobState::Ready);
        Ok((found.into_iter().rev().filter_map(info).collect(), full.then(|| (offset + limit).to_string())))
    }

    async fn page_of_taken(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<ShardPage, Error> {
        let cursor = if from.is_empty() { "0" } else { from };
        let mut scan = redis::cmd("HSCAN");
        scan.arg(self.keys.running(shard, list.queue)).arg(cursor).arg("COUNT").arg(list.limit);
        let (next, found): (String, Vec<String>) = self.connections.query(shard, &scan).await?;
        let info = |pair: &[String]| {
            let (job, running) = (JobId::new(&pair[0]).ok()?, RunningEntry::parse(pair[1].as_bytes())?);
            let (data, held_by) = (running.envelope, Some(running.worker));
            Some(JobInfo { data, held_by, ..empty_info(job, list.queue, JobState::Running) })
        };
        let mut items: Vec<JobInfo> = found.chunks_exact(2).filter_map(info).collect();
        // A hash has no order; within a page the ids define one.
        items.sort_by(|one, other| one.job.cmp(&other.job));
        Ok((items, (next != "0").then_some(next)))
    }
}

/// Entries after `from`; all of them if it is empty.
fn range(key: &str, from: &str, limit: usize) -> Cmd {
    let start = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
    redis::cmd("XRANGE").arg(key).arg(start).arg("+").arg("COUNT").arg(limit).take()
}

fn next_position(page: &[StreamEntry], limit: usize) -> Option<String> {
    page.last().filter(|_| page.len() == limit).map(|entry| entry_id(entry.token))
}

pub(crate) fn empty_info(job: JobId, queue: &Queue, state: JobState) -> JobInfo {
    let queue = Some(queue.clone());
    JobInfo {
        job,
        queue,
        state,
        data: Bytes::new(),
        due: None,
        held_by: None,
        cancelling: false,
        waits_for: Vec::new(),
        record: None,
    }
}

/// The info of a blocked job.
pub(super) fn info_from_blocked(blocked_job: BlockedJob, base: JobInfo) -> JobInfo {
    let waits_for = blocked_job.open.into_iter().map(|blocking| blocking.chain).collect();
    JobInfo { job: blocked_job.job, state: JobState::Blocked, data: blocked_job.envelope, waits_for, ..base }
}

/// The info of a job by its envelope. Other bytes are not listed: the worker that claims them
/// buries them.
fn info_from_envelope(data: Bytes, queue: &Queue, state: JobState) -> Option<JobInfo> {
    let job = Envelope::read(data.clone()).ok()?.id().clone();
    Some(JobInfo { data, ..empty_info(job, queue, state) })
}

fn due(score: &Value) -> Option<Timestamp> {
    if let Some(whole) = int(score) {
        return Some(Timestamp(whole));
    }
    let Value::Double(due) = score else { return None };
    #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
    Some(Timestamp(*due as i64))
}

/// Whether `data` is the envelope of `job`.
pub(super) fn is_envelope_of(data: &Bytes, job: &JobId) -> bool {
    Envelope::read(data.clone()).is_ok_and(|envelope| envelope.id() == job)
}
