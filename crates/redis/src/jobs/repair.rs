//! Repairing what other programs have left behind: jobs in the index that are gone, and entries that were acknowledged
//! and not deleted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidemill_core::{Error, JobId, Queue};

use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::jobs::locate::Place;
use crate::runs::push_removal;
use crate::store::RedisStore;

/// How many jobs of the index, or entries of a stream, one script looks at.
const PAGE: usize = 100;

/// How many pages of the index one round of maintenance looks at: all workers together get through a large one.
const INDEX_PAGES: usize = 10;

/// How many pages of a stream one round looks at. What workers hold is among them.
const STREAM_PAGES: usize = 100;

/// Where the next look at the index of each shard begins.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<HashMap<u16, String>>);

impl Cursors {
    fn take(&self, shard: u16) -> String {
        let cursor = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard);
        cursor.unwrap_or_else(|| "0".to_owned())
    }

    fn put(&self, shard: u16, cursor: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, cursor);
    }
}

/// What one repairing script did.
struct Repaired {
    count: u64,
    /// Where to go on; empty if that was all.
    next: String,
}

impl RedisStore {
    /// Forgets those of these chains that the index has and that are gone. Returns how many.
    pub(crate) async fn forget_lost(&self, shard: u16, chains: &[JobId]) -> Result<u64, Error> {
        let mut forgotten = 0;
        for part in chains.chunks(PAGE) {
            let mut call = self.repairing(shard).arg("chains");
            part.iter().for_each(|chain| call.push(chain.as_str()));
            forgotten += self.repair(shard, call).await?.count;
        }
        Ok(forgotten)
    }

    /// Whether another program has taken a chain's job away. If so it is forgotten.
    pub(crate) async fn is_lost(&self, job: &JobId) -> Result<bool, Error> {
        Ok(self.forget_lost(self.keys.shard_of(job), &[job.chain()]).await? > 0)
    }

    /// A job was not where it was seen: it has moved, or another program has taken it away.
    pub(crate) async fn missed(&self, job: &JobId, place: &Place) -> Result<(), Error> {
        if place.indexed.is_empty() {
            return Ok(());
        }
        self.forget_lost(place.shard, &[job.chain()]).await.map(drop)
    }

    /// Looks at some of the index of a shard. Returns how many jobs were gone.
    pub(super) async fn repair_index(&self, shard: u16) -> Result<u64, Error> {
        let (mut cursor, mut forgotten) = (self.cursors.take(shard), 0);
        for _ in 0..INDEX_PAGES {
            let call = self.repairing(shard).arg("index").arg(&cursor).arg(PAGE);
            let repaired = self.repair(shard, call).await?;
            forgotten += repaired.count;
            cursor = repaired.next;
            if cursor.is_empty() {
                return Ok(forgotten);
            }
        }
        self.cursors.put(shard, cursor);
        Ok(forgotten)
    }

    /// Deletes entries that were acknowledged and not deleted. Returns how many, and whether there may be more.
    pub(super) async fn delete_acknowledged(&self, shard: u16, queue: &Queue) -> Result<(u64, bool), Error> {
        let (mut last, mut deleted) = (String::new(), 0);
        for _ in 0..STREAM_PAGES {
            let call = self.repairing(shard).arg("stream").arg(queue.name.as_str()).arg(&last).arg(PAGE);
            let repaired = self.repair(shard, call).await?;
            deleted += repaired.count;
            last = repaired.next;
            if last.is_empty() {
                return Ok((deleted, false));
            }
        }
        Ok((deleted, deleted > 0))
    }

    fn repairing(&self, shard: u16) -> Call<'_> {
        let mut call = self.call_on_runs(&self.scripts.repair, shard);
        push_removal(&mut call);
        call
    }

    async fn repair(&self, shard: u16, call: Call<'_>) -> Result<Repaired, Error> {
        let odd = || odd_answer("repair");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let errands = Errand::all(parts.split_off(parts.len().min(2)));
        self.carry_on(shard, errands).await;
        let [count, next] = &parts[..] else { return Err(odd()) };
        let count = int(count).and_then(|count| u64::try_from(count).ok()).ok_or_else(odd)?;
        Ok(Repaired { count, next: text(next.clone()).ok_or_else(odd)? })
    }
}
