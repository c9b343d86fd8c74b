//! Where a job is: by the index or, for a job that has no entry there, by a bounded search.

use bytes::Bytes;
use redis::Value;
use tidemill_core::{DeadLetter, Envelope, Error, Guarantee, JobId, Queue, QueueName};

use crate::connection::reply::{bytes, entries, entry_id, parse_token};
use crate::jobs::{NAMELESS, letter_name};
use crate::store::RedisStore;

/// A job's id says when it was made, and a stream's ids say when they were added: an untracked job is looked
/// for in this window around its time.
const BEFORE_MS: u64 = 2_000;
const AFTER_MS: u64 = 10_000;

/// Entries read per trip, and trips made, before a search gives up.
const PAGE: usize = 1_000;
const PAGES: usize = 200;

/// Where a job is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) queue: Queue,
    /// What kind of place: see `lua/prelude.lua`. `None` if only the record of the job is left.
    pub(crate) letter: Option<char>,
    /// The entry, or the member of a sorted set.
    pub(crate) reference: Bytes,
    /// The index value as it was read; empty for a job that has none.
    pub(crate) indexed: Bytes,
}

impl Place {
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.letter, Some('d' | 'D'))
    }

    /// Where a blocked job is.
    pub(crate) fn blocked(shard: u16, queue: Queue, (job, mark): (&JobId, &str)) -> Self {
        let reference = format!("{job} {mark}");
        let indexed = format!("b {} {reference}", queue.name).into();
        Self { shard, queue, letter: Some('b'), reference: reference.into(), indexed }
    }

    /// Where the record of a job is whose queue nobody knows any more.
    pub(crate) fn of_record(shard: u16, queue: Queue) -> Self {
        Self { shard, queue, letter: None, reference: Bytes::new(), indexed: Bytes::new() }
    }

    /// Which job is blocked here, and the mark of its wait.
    pub(crate) fn wait(&self) -> Option<(JobId, &str)> {
        let reference = std::str::from_utf8(&self.reference).ok().filter(|_| self.letter == Some('b'))?;
        let (job, mark) = reference.split_once(' ')?;
        Some((JobId::new(job).ok()?, mark))
    }

    /// The mark of the wait of a blocked job.
    pub(crate) fn mark(&self) -> Option<&str> {
        let reference = std::str::from_utf8(&self.reference).ok().filter(|_| self.letter == Some('b'))?;
        reference.split_once(' ').map(|(_, mark)| mark)
    }

    pub(crate) fn read(shard: u16, value: Bytes) -> Option<Self> {
        let letter = char::from(*value.first()?);
        let delivery = match letter {
            's' | 'S' | 'd' | 'b' => Guarantee::AtLeastOnce,
            'l' | 'L' | 'D' => Guarantee::AtMostOnce,
            _ => return None,
        };
        let rest = value.get(2..)?;
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let name = QueueName::new(std::str::from_utf8(&rest[..end]).ok()?).ok()?;
        let reference = value.slice((2 + end + 1).min(value.len())..);
        let letter = Some(letter);
        Some(Self { shard, queue: Queue { name, guarantee: delivery }, letter, reference, indexed: value })
    }
}

impl RedisStore {
    /// Where a job is, if it is anywhere.
    pub(crate) async fn locate(&self, job: &JobId) -> Result<Option<Place>, Error> {
        match self.locate_indexed(job).await? {
            Some(place) => Ok(Some(place)),
            None => self.search(job).await,
        }
    }

    pub(crate) async fn locate_indexed(&self, job: &JobId) -> Result<Option<Place>, Error> {
        let shard = self.keys.shard_of(job);
        let ask = redis::cmd("HGET").arg(self.keys.jobs(shard)).arg(job.chain().as_str()).take();
        let value: Value = self.link.query(shard, &ask).await?;
        let Some(value) = bytes(value) else { return Ok(None) };
        let damaged = || Error::Corrupt(format!("the index entry of job {job}"));
        Place::read(shard, value).ok_or_else(damaged).map(Some)
    }

    /// The id of the job a chain is at, by the envelope where it was seen; `None` if it has moved.
    pub(crate) async fn current_job(&self, job: &JobId, place: &Place) -> Result<Option<JobId>, Error> {
        let Some(data) = self.data_at(job, place).await? else { return Ok(None) };
        Ok(Some(id_in(&data).unwrap_or_else(|| job.clone())))
    }

    /// The envelope or letter of a job where it was seen; `None` if it has moved. Empty if it is somewhere in a
    /// long list.
    pub(crate) async fn data_at(&self, job: &JobId, place: &Place) -> Result<Option<Bytes>, Error> {
        let (shard, queue, reference) = (place.shard, &place.queue, &place.reference[..]);
        let stream = match place.letter {
            Some('s') => self.keys.target(shard, queue),
            Some('d' | 'D') => self.keys.dlq(shard, queue),
            Some('b') => {
                let waits = self.keys.waits(shard, place.mark().unwrap_or_default());
                let ask = redis::cmd("HGET").arg(waits).arg("envelope").take();
                return Ok(bytes(self.link.query(shard, &ask).await?));
            }
            Some('S' | 'L') => return Ok(Some(place.reference.clone())),
            _ => return Ok(Some(self.taken(job, place).await?.data)),
        };
        let range = redis::cmd("XRANGE").arg(stream).arg(reference).arg(reference).take();
        Ok(entries(self.link.query(shard, &range).await?)?.pop().map(|entry| entry.data))
    }

    async fn search(&self, job: &JobId) -> Result<Option<Place>, Error> {
        if let Some(entry) = job.as_str().strip_prefix(NAMELESS).filter(|entry| parse_token(entry).is_some())
        {
            return self.search_letters(job, entry).await;
        }
        let Some(made) = made_at(job) else { return Ok(None) };
        let shard = self.keys.shard_of(job);
        for queue in self.names_of_queues(shard).await? {
            let found = match queue.guarantee {
                Guarantee::AtLeastOnce => self.search_stream((shard, &queue), job, made).await?,
                Guarantee::AtMostOnce => None,
            };
            if let Some(entry) = found {
                let (letter, indexed) = (Some('s'), Bytes::new());
                return Ok(Some(Place { shard, queue, letter, reference: entry.into(), indexed }));
            }
        }
        Ok(None)
    }

    /// A letter that is called by its entry, because nobody can read it or it was no envelope.
    async fn search_letters(&self, job: &JobId, entry: &str) -> Result<Option<Place>, Error> {
        for shard in 0..self.keys.shards() {
            for queue in self.names_of_queues(shard).await? {
                let range =
                    redis::cmd("XRANGE").arg(self.keys.dlq(shard, &queue)).arg(entry).arg(entry).take();
                let found = entries(self.link.query(shard, &range).await?)?.pop();
                if found.is_some_and(|found| letter_name(&found) == *job) {
                    let letter = Some(if queue.guarantee == Guarantee::AtLeastOnce { 'd' } else { 'D' });
                    let (reference, indexed) = (Bytes::copy_from_slice(entry.as_bytes()), Bytes::new());
                    return Ok(Some(Place { shard, queue, letter, reference, indexed }));
                }
            }
        }
        Ok(None)
    }

    async fn search_stream(
        &self,
        (shard, queue): (u16, &Queue),
        job: &JobId,
        made: u64,
    ) -> Result<Option<String>, Error> {
        let mut from = made.saturating_sub(BEFORE_MS).to_string();
        let to = (made + AFTER_MS).to_string();
        for _ in 0..PAGES {
            let mut range = redis::cmd("XRANGE");
            range.arg(self.keys.target(shard, queue)).arg(&from).arg(&to).arg("COUNT").arg(PAGE);
            let page = entries(self.link.query(shard, &range).await?)?;
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

/// The job id in an envelope or a letter.
pub(crate) fn id_in(data: &Bytes) -> Option<JobId> {
    DeadLetter::read(data.clone()).ok().map(|letter| letter.job)
}

/// When an id of ours was made: the first 48 bits of a UUID of version 7.
fn made_at(job: &JobId) -> Option<u64> {
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
        assert!(made_at(&JobId::generate()).unwrap().abs_diff(now) < 10_000);
        assert!(made_at(&JobId::new("order-17").unwrap()).is_none());
    }

    #[test]
    fn index_values_read_back() {
        let place = Place::read(3, Bytes::from_static(b"S mail {\"a b\":1}")).unwrap();
        assert_eq!((place.letter, place.queue.name.as_str()), (Some('S'), "mail"));
        assert_eq!(&place.reference[..], b"{\"a b\":1}");
        let place = Place::read(0, Bytes::from_static(b"l mail")).unwrap();
        assert!(place.reference.is_empty() && place.queue.guarantee == Guarantee::AtMostOnce);
        let place = Place::read(0, Bytes::from_static(b"b mail a~2 0f")).unwrap();
        assert_eq!((place.wait().unwrap().0.as_str(), place.mark()), ("a~2", Some("0f")));
        assert!(Place::read(0, Bytes::from_static(b"x mail")).is_none());
    }
}
