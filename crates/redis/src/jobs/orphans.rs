//! Index entries of jobs that nobody has: taken from a list by a process that died before it had locked them.
//!
//! At most once, they are lost; but their ids must be free again, and whoever waits for them must hear of it. A job
//! that is just being taken looks the same, so an entry is forgotten when it is seen like this twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidemill_core::{Error, Queue};
use tokio::time::Instant;

use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How long taking a job can last at most.
const TAKING: Duration = Duration::from_secs(5);

/// How much of the index one look goes through.
const PAGE: usize = 1_000;

/// What was seen by earlier looks.
#[derive(Debug, Default)]
pub(crate) struct Orphans(Mutex<HashMap<(Queue, u16), Seen>>);

/// What was seen of one list in one shard.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// Where the next look begins.
    cursor: String,
    /// Chains that seemed to be nobody's, and since when.
    suspects: HashMap<String, Instant>,
}

impl RedisStore {
    /// Looks at a page of the index; forgets what was nobody's long enough.
    pub(super) async fn remove_orphans(&self, shard: u16, queue: &Queue) -> Result<u64, Error> {
        let place = (queue.clone(), shard);
        let mut seen = self.orphans.lock().get(&place).cloned().unwrap_or_default();
        let mut removed = 0;
        let found = self.suspects(shard, queue, &mut seen.cursor).await?;
        let now = Instant::now();
        for chain in found {
            seen.suspects.entry(chain).or_insert(now);
        }
        let ripe = |since: &Instant| now.duration_since(*since) >= TAKING;
        let chains: Vec<String> =
            seen.suspects.extract_if(|_, since| ripe(since)).map(|(chain, _)| chain).take(PAGE).collect();
        if !chains.is_empty() {
            removed = self.forget(shard, queue, &chains).await?;
        }
        if seen.suspects.len() > PAGE {
            // Most of them were being taken, and are not seen again.
            seen.suspects.clear();
        }
        self.orphans.lock().insert(place, seen);
        Ok(removed)
    }

    async fn suspects(&self, shard: u16, queue: &Queue, cursor: &mut String) -> Result<Vec<String>, Error> {
        let keys = [
            self.keys.jobs(shard),
            self.keys.target(shard, queue),
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.takers(shard, queue),
        ];
        let from = if cursor.is_empty() { "0" } else { cursor.as_str() };
        let call = Call::new(&self.scripts.orphans, &keys).arg(queue.name.as_str()).arg(from).arg(PAGE);
        let odd = || odd_answer("suspects");
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?.into_iter().map(text);
        *cursor = parts.next().flatten().ok_or_else(odd)?;
        Ok(parts.flatten().collect())
    }

    async fn forget(&self, shard: u16, queue: &Queue, chains: &[String]) -> Result<u64, Error> {
        let mut keys = self.keys.home(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.running(shard, queue));
        let call = Call::new(&self.scripts.forget_orphans, &keys)
            .arg(self.keys.channel())
            .arg(queue.name.as_str())
            .arg(chains);
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(|| odd_answer("forget"))?;
        let errands = Errand::all(parts.split_off(parts.len().min(1)));
        self.carry_on(shard, errands).await;
        let count = parts.first().and_then(int).and_then(|count| u64::try_from(count).ok());
        count.ok_or_else(|| odd_answer("forget"))
    }
}

impl Orphans {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Queue, u16), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
