//! Pages of a queue's jobs in one state. A cursor is `shard:position`.

use bytes::Bytes;
use redis::{Cmd, Value};
use tidemill_core::job::JobState;
use tidemill_core::store::{JobInfo, ListJobsParams, Page};
use tidemill_core::{Envelope, Error, Guarantee, JobId, Queue, Timestamp};

use crate::chains::blocked_job::Wait;
use crate::connection::reply::{Entry, Trace, array, bytes, entries, entry_id, int, text};
use crate::error::{classify, is_no_group, odd_answer};
use crate::jobs::letter_name;
use crate::store::RedisStore;

/// How many of the chains a job waits for are shown.
pub(super) const CHAINS_SHOWN: usize = 100;

/// One page of one shard: its jobs, and the position of the next.
type Part = (Vec<JobInfo>, Option<String>);

impl RedisStore {
    pub(crate) async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        let bad = || Error::Invalid("not a cursor of ours".into());
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
    ) -> Result<Part, Error> {
        let key = self.keys.dlq(shard, list.queue);
        let page = entries(self.link.query(shard, &range(&key, from, list.limit)).await?)?;
        let next = next_of(&page, list.limit);
        let info = |entry: Entry| {
            let base = blank(letter_name(&entry), list.queue, JobState::Dead);
            JobInfo { data: entry.data, ..base }
        };
        Ok((page.into_iter().map(info).collect(), next))
    }

    /// Ready entries come after the group's position; those before it are pending.
    async fn page_of_ready(&self, shard: u16, from: &str, list: &ListJobsParams<'_>) -> Result<Part, Error> {
        let key = self.keys.target(shard, list.queue);
        let from = match from {
            "" => self.position(shard, list.queue, None).await?.at,
            from => from.to_owned(),
        };
        let page = entries(self.link.query(shard, &range(&key, &from, list.limit)).await?)?;
        let next = next_of(&page, list.limit);
        let info = |entry: Entry| info_of(entry.data, list.queue, JobState::Ready);
        Ok((page.into_iter().filter_map(info).collect(), next))
    }

    async fn page_of_pending(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<Part, Error> {
        let key = self.keys.target(shard, list.queue);
        let start = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
        let mut ask = redis::cmd("XPENDING");
        ask.arg(&key).arg(self.group(list.queue)).arg(start).arg("+").arg(list.limit);
        let answer = match self.link.send(shard, &ask).await {
            Err(error) if is_no_group(&error) => return Ok((Vec::new(), None)),
            answer => answer.map_err(|error| classify("XPENDING", error))?,
        };
        let found = array(answer).ok_or_else(|| odd_answer("XPENDING"))?;
        let full = found.len() == list.limit;
        let (mut items, mut last) = (Vec::new(), None);
        for item in found {
            let mut parts = array(item).unwrap_or_default().into_iter();
            let (Some(entry), holder) = (parts.next().and_then(text), parts.next().and_then(text)) else {
                continue;
            };
            let one = redis::cmd("XRANGE").arg(&key).arg(&entry).arg(&entry).take();
            let body = entries(self.link.query(shard, &one).await?)?.pop();
            let info = body.and_then(|body| info_of(body.data, list.queue, JobState::Running));
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
    ) -> Result<Part, Error> {
        let offset: usize = from.parse().unwrap_or(0);
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(self.keys.scheduled(shard, list.queue))
            .arg(offset)
            .arg(offset + list.limit - 1)
            .arg("WITHSCORES");
        let found: Vec<Value> = self.link.query(shard, &ask).await?;
        let full = found.len() == list.limit * 2;
        let mut items = Vec::new();
        let mut found = found.into_iter();
        while let (Some(member), Some(score)) = (found.next(), found.next()) {
            let info = bytes(member).and_then(|data| info_of(data, list.queue, JobState::Scheduled));
            items.extend(info.map(|info| JobInfo { due: due(&score), ..info }));
        }
        Ok((items, full.then(|| (offset + list.limit).to_string())))
    }

    async fn page_of_blocked(
        &self,
        shard: u16,
        from: &str,
        list: &ListJobsParams<'_>,
    ) -> Result<Part, Error> {
        let offset: usize = from.parse().unwrap_or(0);
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(self.keys.blocked(shard, list.queue)).arg(offset).arg(offset + list.limit - 1);
        let members: Vec<String> = self.link.query(shard, &ask).await?;
        let marks: Vec<&str> = members.iter().filter_map(|member| Some(member.split_once(' ')?.1)).collect();
        let waits = self.waits(shard, &marks, CHAINS_SHOWN).await?;
        let info = |wait: Wait| {
            let base = blank(wait.job.clone(), list.queue, JobState::Blocked);
            blocked(wait, base)
        };
        let items = waits.into_iter().flatten().map(info).collect();
        Ok((items, (members.len() == list.limit).then(|| (offset + list.limit).to_string())))
    }

    /// A list is read from its right end, where the oldest job is.
    async fn page_of_list(&self, shard: u16, from: &str, list: &ListJobsParams<'_>) -> Result<Part, Error> {
        let offset: i64 = from.parse().unwrap_or(0);
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let mut ask = redis::cmd("LRANGE");
        ask.arg(self.keys.target(shard, list.queue)).arg(-(offset + limit)).arg(-(offset + 1));
        let found: Vec<Value> = self.link.query(shard, &ask).await?;
        let full = found.len() == list.limit;
        let info = |value| info_of(bytes(value)?, list.queue, JobState::Ready);
        Ok((found.into_iter().rev().filter_map(info).collect(), full.then(|| (offset + limit).to_string())))
    }

    async fn page_of_taken(&self, shard: u16, from: &str, list: &ListJobsParams<'_>) -> Result<Part, Error> {
        let cursor = if from.is_empty() { "0" } else { from };
        let mut scan = redis::cmd("HSCAN");
        scan.arg(self.keys.running(shard, list.queue)).arg(cursor).arg("COUNT").arg(list.limit);
        let (next, found): (String, Vec<String>) = self.link.query(shard, &scan).await?;
        let info = |pair: &[String]| {
            let (job, trace) = (JobId::new(&pair[0]).ok()?, Trace::read(pair[1].as_bytes())?);
            let (data, held_by) = (trace.envelope, Some(trace.worker));
            Some(JobInfo { data, held_by, ..blank(job, list.queue, JobState::Running) })
        };
        let mut items: Vec<JobInfo> = found.chunks_exact(2).filter_map(info).collect();
        // A hash has no order; within a page the ids give one.
        items.sort_by(|one, other| one.job.cmp(&other.job));
        Ok((items, (next != "0").then_some(next)))
    }
}

/// Entries after `from`; all of them if it is empty.
fn range(key: &str, from: &str, limit: usize) -> Cmd {
    let start = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
    redis::cmd("XRANGE").arg(key).arg(start).arg("+").arg("COUNT").arg(limit).take()
}

fn next_of(page: &[Entry], limit: usize) -> Option<String> {
    page.last().filter(|_| page.len() == limit).map(|entry| entry_id(entry.token))
}

pub(crate) fn blank(job: JobId, queue: &Queue, state: JobState) -> JobInfo {
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

/// A blocked job.
pub(super) fn blocked(wait: Wait, base: JobInfo) -> JobInfo {
    let waits_for = wait.open.into_iter().map(|blocking| blocking.chain).collect();
    JobInfo { job: wait.job, state: JobState::Blocked, data: wait.envelope, waits_for, ..base }
}

/// A job by its envelope. Bytes that are none are not listed: whoever claims them buries them.
fn info_of(data: Bytes, queue: &Queue, state: JobState) -> Option<JobInfo> {
    let job = Envelope::read(data.clone()).ok()?.id().clone();
    Some(JobInfo { data, ..blank(job, queue, state) })
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
pub(super) fn is_of(data: &Bytes, job: &JobId) -> bool {
    Envelope::read(data.clone()).is_ok_and(|envelope| envelope.id() == job)
}
