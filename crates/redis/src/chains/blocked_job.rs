//! Blocked jobs as they are in the store, and telling them what is known of the chains they wait for.

use bytes::Bytes;
use redis::Value;
use tidemill_core::chain::Blocker;
use tidemill_core::{Error, JobId, Queue, QueueName};

use crate::connection::Call;
use crate::connection::reply::{array, bytes, int, ints, text};
use crate::error::odd_answer;
use crate::inspect::record;
use crate::store::RedisStore;

/// A blocked job.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) job: JobId,
    pub(crate) queue: Queue,
    pub(crate) envelope: Bytes,
    /// Whether it was being made when it began to wait; else a chain has gone on to it.
    pub(crate) is_new: bool,
    /// The chains it still waits for, in their order.
    pub(crate) open: Vec<Blocking>,
}

/// A chain that a job still waits for.
#[derive(Debug)]
pub(crate) struct Blocking {
    /// Which one of those it waits for, from 1 on.
    pub(crate) position: u32,
    pub(crate) chain: JobId,
    /// Whether the chain's shard knows of it.
    pub(crate) registered: bool,
}

impl Blocking {
    /// `POSITION -CHAIN`, or `?` in place of the minus.
    fn read(value: &str) -> Option<Self> {
        let (position, chain) = value.split_once(' ')?;
        let (registered, chain) = (chain.starts_with('-'), chain.get(1..)?);
        Some(Self { position: position.parse().ok()?, chain: JobId::new(chain).ok()?, registered })
    }
}

impl Wait {
    fn read(value: Value) -> Option<Self> {
        let mut parts = array(value)?.into_iter();
        let job = JobId::new(&text(parts.next()?)?).ok()?;
        let queue = Queue::at_least_once(QueueName::new(&text(parts.next()?)?).ok()?);
        let envelope = bytes(parts.next()?)?;
        let is_new = text(parts.nth(1)?)? == "new";
        let open = parts.filter_map(|part| Blocking::read(&text(part)?)).collect();
        Some(Self { job, queue, envelope, is_new, open })
    }
}

/// How a job is entered with a chain it waits for.
pub(super) fn waiter(chain: &JobId, mark: &str, position: u32, (queue, job): (&Queue, &JobId)) -> String {
    format!("{chain} {mark} {position} {} {job}", queue.name)
}

/// What is known of chains that one job waits for.
pub(super) struct Tiding {
    pub(super) job: JobId,
    pub(super) mark: String,
    /// Positions, and for each that it is open and the job registered, or which telling it told.
    pub(super) notes: Vec<(u32, Note)>,
}

/// What is known of one chain.
#[derive(Clone, Copy)]
pub(super) enum Note {
    Open,
    /// It told this one of the tellings.
    Told(usize),
}

/// What `inform` says of a job whose wait cannot be read.
const DAMAGED_WAIT: i64 = 3;

/// What a job was when it was told something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Informed {
    /// It did not wait any more.
    Gone,
    /// It was waiting, whether it still is or not.
    Yes,
}

impl RedisStore {
    /// Looks at blocked jobs by the marks of their waits, showing at most so many chains of each.
    pub(crate) async fn waits(
        &self,
        shard: u16,
        marks: &[&str],
        most: usize,
    ) -> Result<Vec<Option<Wait>>, Error> {
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<String> = marks.iter().map(|mark| self.keys.waits(shard, mark)).collect();
        let answer = self.link.call(shard, Call::new(&self.scripts.read_waits, &keys).arg(most)).await?;
        let items = array(answer).ok_or_else(|| odd_answer("waits"))?;
        Ok(items.into_iter().map(Wait::read).collect())
    }

    /// Tells jobs of one queue and shard what is known. Whoever is told the last thing becomes ready.
    pub(super) async fn inform(
        &self,
        (shard, queue): (u16, &Queue),
        tellings: &[Bytes],
        messages: &[Tiding],
    ) -> Result<Vec<Informed>, Error> {
        let mut keys = self.keys.home(shard);
        keys.push(self.keys.target(shard, queue));
        keys.push(self.keys.scheduled(shard, queue));
        keys.push(self.keys.blocked(shard, queue));
        keys.extend(messages.iter().map(|message| self.keys.waits(shard, &message.mark)));
        let mut call = Call::new(&self.scripts.notify_blocked, &keys)
            .arg(self.keys.channel())
            .arg(queue.name.as_str())
            .arg(tellings.len());
        tellings.iter().for_each(|told| call.push(&told[..]));
        for message in messages {
            call.push(message.job.as_str());
            call.push(&message.mark);
            call.push(message.notes.len());
            for (position, note) in &message.notes {
                call.push(*position);
                match note {
                    Note::Open => call.push("-"),
                    Note::Told(number) => call.push(number + 1),
                }
            }
        }
        let answer = ints(self.link.call(shard, call).await?, "inform")?;
        // The others have been told; this one is told again, by whoever carries the errand on.
        if let Some(damaged) = answer.iter().position(|&state| state == DAMAGED_WAIT) {
            let key = self.keys.waits(shard, &messages[damaged].mark);
            let job = &messages[damaged].job;
            return Err(Error::Unsuitable(format!("inform: `{key}` holds no wait of job {job}")));
        }
        Ok(answer.into_iter().map(|state| if state == 0 { Informed::Gone } else { Informed::Yes }).collect())
    }

    /// Takes registrations back, as well as it goes: one that stays is found out when it matters, because the
    /// job it names does not wait.
    pub(crate) async fn unregister(
        &self,
        mark: &str,
        place: (&Queue, &JobId),
        chains: impl IntoIterator<Item = (u32, JobId)>,
    ) {
        let mut by_shard: Vec<(u16, Vec<String>)> = Vec::new();
        for (position, chain) in chains {
            let (shard, entry) = (self.keys.shard_of(&chain), waiter(&chain, mark, position, place));
            match by_shard.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, entries)) => entries.push(entry),
                None => by_shard.push((shard, vec![entry])),
            }
        }
        for (shard, entries) in by_shard {
            let remove = redis::cmd("ZREM").arg(self.keys.waiters(shard)).arg(entries).take();
            if let Err(error) = self.link.query::<i64>(shard, &remove).await {
                tracing::debug!(
                    error = error.full_message(),
                    "registrations of a job that is gone stay for now"
                );
            }
        }
    }
}

/// What a chain tells by what was kept of it: nothing if it was removed.
pub(super) fn told(chain: &JobId, kept: &[u8]) -> Bytes {
    match record::read(&chain.chain(), kept) {
        Ok(record) => Blocker::notice(&record),
        Err(_) => Blocker::removed_notice(chain),
    }
}

/// `number` as an answer of Redis has it.
pub(super) fn number(value: &Value) -> i64 {
    int(value).unwrap_or(0)
}
