//! Telling those that wait for a chain that it has closed: in pages, each in the shard of whoever waits.

use bytes::Bytes;
use tidemill_core::{Error, JobId, Queue, QueueName};

use super::blocked_job::{Note, Tiding, number, told};
use crate::connection::Call;
use crate::connection::reply::{array, bytes, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How many are told in one round: bounds what one script does.
const PAGE: usize = 250;

/// A job that waits for a chain, as it is entered there.
struct Waiter {
    queue: Queue,
    tiding: Tiding,
}

impl Waiter {
    /// `CHAIN MARK POSITION QUEUE JOB`.
    fn read(entry: &str) -> Option<Self> {
        let mut parts = entry.split(' ').skip(1);
        let mark = parts.next()?.to_owned();
        let position = parts.next()?.parse().ok()?;
        let queue = Queue::at_least_once(QueueName::new(parts.next()?).ok()?);
        let job = JobId::new(parts.next()?).ok()?;
        Some(Self { queue, tiding: Tiding { job, mark, notes: vec![(position, Note::Told(0))] } })
    }
}

impl RedisStore {
    /// Tells everyone who waits for a chain that has closed, until nobody is left.
    pub(crate) async fn tell_waiters(&self, shard: u16, chain: &JobId) -> Result<(), Error> {
        loop {
            let (notice, entries) = self.notice_of(shard, chain).await?;
            if let Some(notice) = notice {
                self.tell_all(&told(chain, &notice), &entries).await?;
            }
            if self.note_told(shard, chain, &entries).await? {
                return Ok(());
            }
        }
    }

    /// What is to be told of a chain, and to whom: a page of them.
    async fn notice_of(&self, shard: u16, chain: &JobId) -> Result<(Option<Bytes>, Vec<String>), Error> {
        let keys = [self.keys.waiters(shard), self.keys.notices(shard)];
        let call = Call::new(&self.scripts.read_notice, &keys).arg(chain.as_str()).arg(PAGE);
        let parts = array(self.link.call(shard, call).await?).ok_or_else(|| odd_answer("notice"))?;
        let mut parts = parts.into_iter();
        let notice = parts.next().and_then(bytes);
        Ok((notice, parts.filter_map(text).collect()))
    }

    async fn tell_all(&self, told: &Bytes, entries: &[String]) -> Result<(), Error> {
        let mut places: Vec<(u16, Queue, Vec<Tiding>)> = Vec::new();
        for Waiter { queue, tiding } in entries.iter().filter_map(|entry| Waiter::read(entry)) {
            let shard = self.keys.shard_of(&tiding.job);
            match places.iter_mut().find(|(there, name, _)| *there == shard && *name == queue) {
                Some((_, _, tidings)) => tidings.push(tiding),
                None => places.push((shard, queue, vec![tiding])),
            }
        }
        for (shard, queue, tidings) in places {
            self.inform((shard, &queue), std::slice::from_ref(told), &tidings).await?;
        }
        Ok(())
    }

    /// Takes note that these were told. Says whether they were the last.
    async fn note_told(&self, shard: u16, chain: &JobId, entries: &[String]) -> Result<bool, Error> {
        let keys = [self.keys.waiters(shard), self.keys.notices(shard), self.keys.errands(shard)];
        let call = Call::new(&self.scripts.notified, &keys).arg(chain.as_str()).arg(entries);
        Ok(number(&self.link.call(shard, call).await?) == 1)
    }
}
