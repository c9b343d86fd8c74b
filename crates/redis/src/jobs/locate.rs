//! Locating a job: by the index or, without an index entry, by a bounded search.

use bytes::Bytes;
use redis::Value;
use tidemill_core::{DeadLetter, Envelope, Error, Guarantee, JobId, Queue, QueueName};

use crate::connection::reply::{bytes, entries, entry_id, parse_token};
use crate::jobs::{INVALID_ID_PREFIX, dead_letter_id};
use crate::store::RedisStore;

/// Job ids and stream ids contain their time, so an untracked job is searched for in this window.
const SEARCH_BEFORE_MS: u64 = 2_000;
const SEARCH_AFTER_MS: u64 = 10_000;

/// Page size, and maximum number of pages, of a search.
const SEARCH_PAGE_SIZE: usize = 1_000;
const MAX_SEARCH_PAGES: usize = 200;

/// The location of a job.
#[derive(Debug)]
pub(crate) struct JobLocation {
    pub(crate) shard: u16,
    pub(crate) queue: Queue,
    /// The kind of location: see `lua/lib/queue.lua`. `None` if only the record is left.
    pub(crate) letter: Option<char>,
    /// The entry, or the member of a sorted set.
    pub(crate) reference: Bytes,
    /// The index value as read; empty for a job without one.
    pub(crate) index_value: Bytes,
}

impl JobLocation {
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.letter, Some('d' | 'D'))
    }

    /// The location of a blocked job.
    pub(crate) fn blocked(shard: u16, queue: Queue, (job, wait_id): (&JobId, &str)) -> Self {
        let reference = format!("{job} {wait_id}");
        let indexed = format!("b {} {reference}", queue.name).into();
        Self { shard, queue, letter: Some('b'), reference: reference.into(), index_value: indexed }
    }

    /// The location of a record without a known queue.
    pub(crate) fn record_only(shard: u16, queue: Queue) -> Self {
        Self { shard, queue, letter: None, reference: Bytes::new(), index_value: Bytes::new() }
    }

    /// The blocked job, and the id of its wait.
    pub(crate) fn wait(&self) -> Option<(JobId, &str)> {
        let reference = std::str::from_utf8(&self.reference).ok().filter(|_| self.letter == Some('b'))?;
        let (job, wait_id) = reference.split_once(' ')?;
        Some((JobId::new(job).ok()?, wait_id))
    }

    /// The wait id of a blocked job.
    pub(crate) fn wait_id(&self) -> Option<&str> {
        let reference = std::str::from_utf8(&self.reference).ok().filter(|_| self.letter == Some('b'))?;
        reference.split_once(' ').map(|(_, wait_id)| wait_id)
    }

    pub(crate) fn parse(shard: u16, value: Bytes) -> Option<Self> {
        let letter = char::from(*value.first()?);
        let guarantee = match letter {
            's' | 'S' | 'd' | 'b' => Guarantee::AtLeastOnce,
            'l' | 'L' | 'D' => Guarantee::AtMostOnce,
            _ => return None,
        };
        let rest = value.get(2..)?;
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let name = QueueName::new(std::str::from_utf8(&rest[..end]).ok()?).ok()?;
        let reference = value.slice((2 + end + 1).min(value.len())..);
        let letter = Some(letter);
        Some(Self { shard, queue: Queue { name, guarantee }, letter, reference, index_value: value })
    }
}

impl RedisStore {
    /// Locates a job.
    pub(crate) async fn locate(&self, job: &JobId) -> Result<Option<JobLocation>, Error> {
        match self.locate_indexed(job).await? {
            Some(location) => Ok(Some(location)),
            None => self.search(job).await,
        }
    }

    pub(crate) async fn locate_indexed(&self, job: &JobId) -> Result<Option<JobLocation>, Error> {
        let shard = self.keys.shard_of(job);
        let command = redis::cmd("HGET").arg(self.keys.jobs(shard)).arg(job.chain().as_str()).take();
        let value: Value = self.connections.query(shard, &command).await?;
        let Some(value) = bytes(value) else { return Ok(None) };
        let damaged = || Error::Corrupt(format!("the index entry of job {job}"));
        JobLocation::parse(shard, value).ok_or_else(damaged).map(Some)
    }

    /// The id of a chain's current job, by the envelope at this location; `None` if it has moved.
    pub(crate) async fn current_job(
        &self,
        job: &JobId,
        location: &JobLocation,
    ) -> Result<Option<JobId>, Error> {
        let Some(data) = self.data_at(job, location).await? else { return Ok(None) };
        Ok(Some(job_id_in(&data).unwrap_or_else(|| job.clone())))
    }

    /// The envelope or dead letter at this location; `None` if the job has moved. Empty if it is
    /// deep in a long list.
    pub(crate) async fn data_at(&self, job: &JobId, location: &JobLocation) -> Result<Option<Bytes>, Error> {
        let (shard, queue, reference) = (location.shard, &location.queue, &location.reference[..]);
        let stream = match location.letter {
            Some('s') => self.keys.target(shard, queue),
            Some('d' | 'D') => self.keys.dlq(shard, queue),
            Some('b') => {
                let waits = self.keys.waits(shard, location.wait_id().unwrap_or_default());
                let command = redis::cmd("HGET").arg(waits).arg("envelope").take();
                return Ok(bytes(self.connections.query(shard, &command).await?));
            }
            Some('S' | 'L') => return Ok(Some(location.reference.clone())),
            _ => return Ok(Some(self.list_job_info(job, location).await?.data)),
        };
        let range = redis::cmd("XRANGE").arg(stream).arg(reference).arg(reference).take();
        Ok(entries(self.connections.query(shard, &range).await?)?.pop().map(|entry| entry.data))
    }

    async fn search(&self, job: &JobId) -> Result<Option<JobLocation>, Error> {
        if let Some(entry) =
            job.as_str().strip_prefix(INVALID_ID_PREFIX).filter(|entry| parse_token(entry).is_some())
        {
            return self.search_letters(job, entry).await;
        }
        let Some(created) = created_ms(job) else { return Ok(None) };
        let shard = self.keys.shard_of(job);
        for queue in self.registered_queues(shard).await? {
            let found = match queue.guarantee {
                Guarantee::AtLeastOnce => self.search_stream((shard, &queue), job, created).await?,
                Guarantee::AtMostOnce => None,
            };
            if let Some(entry) = found {
                let (letter, indexed) = (Some('s'), Bytes::new());
                return Ok(Some(JobLocation {
                    shard,
                    queue,
                    letter,
                    reference: entry.into(),
                    index_value: indexed,
                }));
            }
        }
        Ok(None)
    }

    /// Searches for a dead letter that is identified by its entry, because it has no job id.
    async fn search_letters(&self, job: &JobId, entry: &str) -> Result<Option<JobLocation>, Error> {
        for shard in 0..self.keys.shards() {
            for queue in self.registered_queues(shard).await? {
                let range =
                    redis::cmd("XRANGE").arg(self.keys.dlq(shard, &queue)).arg(entry).arg(entry).take();
                let found = entries(self.connections.query(shard, &range).await?)?.pop();
                if found.is_some_and(|found| dead_letter_id(&found) == *job) {
                    let letter = Some(if queue.guarantee == Guarantee::AtLeastOnce { 'd' } else { 'D' });
                    let (reference, indexed) = (Bytes::copy_from_slice(entry.as_bytes()), Bytes::new());
                    return Ok(Some(JobLocation { shard, queue, letter, reference, index_value: indexed }));
                }
            }
        }
        Ok(None)
    }

    async fn search_stream(
        &self,
        (shard, queue): (u16, &Queue),
        job: &JobId,
        created: u64,
    ) -> Result<Option<String>, Error> {
        let mut from = created.saturating_sub(SEARCH_BEFORE_MS).to_string();
        let to = (created + SEARCH_AFTER_MS).to_string();
        for _ in 0..MAX_SEARCH_PAGES {
            let mut range = redis::cmd("XRANGE");
            range.arg(self.keys.target(shard, queue)).arg(&from).arg(&to).arg("COUNT").arg(SEARCH_PAGE_SIZE);
            let page = entries(self.connections.query(shard, &range).await?)?;
            let Some(last) = page.last().map(|entry| entry_id(entry.token)) else { break };
            let is_it =
                |data: &Bytes| Envelope::read(data.clone()).is_ok_and(|envelope| envelope.id() == job);
            if let Some(entry) = page.into_iter().find(|entry| is_it(&entry.data)) {
                return Ok(Some(entry_id(entry.token)));
            }
            from = format!("({last}");
        }
        Ok(None)
    }
}

/// The job id in an envelope or a dead letter.
pub(crate) fn job_id_in(data: &Bytes) -> Option<JobId> {
    DeadLetter::read(data.clone()).ok().map(|letter| letter.job)
}

/// The creation time of a generated id: the first 48 bits of a UUID of version 7.
fn created_ms(job: &JobId) -> Option<u64> {
    let id = job.as_str();
    let is_ours = id.len() == 36 && id.as_bytes()[14] == b'7';
    let hex = format!("{}{}", id.get(..8)?, id.get(9..13)?);
    is_ours.then(|| u64::from_str_radix(&hex, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_when_it_was_made() {
        let now = u64::try_from(tidemill_core::Timestamp::now().0).unwrap();
        assert!(created_ms(&JobId::generate()).unwrap().abs_diff(now) < 10_000);
        assert!(created_ms(&JobId::new("order-17").unwrap()).is_none());
    }

    #[test]
    fn index_values_read_back() {
        let location = JobLocation::parse(3, Bytes::from_static(b"S mail {\"a b\":1}")).unwrap();
        assert_eq!((location.letter, location.queue.name.as_str()), (Some('S'), "mail"));
        assert_eq!(&location.reference[..], b"{\"a b\":1}");
        let location = JobLocation::parse(0, Bytes::from_static(b"l mail")).unwrap();
        assert!(location.reference.is_empty() && location.queue.guarantee == Guarantee::AtMostOnce);
        let location = JobLocation::parse(0, Bytes::from_static(b"b mail a~2 0f")).unwrap();
        assert_eq!((location.wait().unwrap().0.as_str(), location.wait_id()), ("a~2", Some("0f")));
        assert!(JobLocation::parse(0, Bytes::from_static(b"x mail")).is_none());
    }
}
