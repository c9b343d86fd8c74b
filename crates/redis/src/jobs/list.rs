//! Taking from a list: popped from the right, several at a time.
//!
//! A tracked job is then locked by its id, so that two copies of it never run at once. An untracked one has an
//! id that exists once by construction; it is taken, and that is all. Until then the server keeps what was popped (`pops`),
//! so that an answer that is lost loses no job.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tidemill_core::store::Claimed;
use tidemill_core::{Clock as _, Error, JobId, Lease, Timestamp, Token};

use super::claim::Share;
use super::list_pops::{Pop, mark};
use super::stream::nameless;
use super::{SCRIPT_BYTES, ms, portions};
use crate::connection::Call;
use crate::connection::keys::member;
use crate::connection::reply::{UNTRACKED, array, bytes, int, text};
use crate::error::{classify, odd_answer};
use crate::store::RedisStore;

/// The tokens of jobs of one pop that are not locked: one after the other from the first on.
fn unlocked_tokens(now: Timestamp) -> impl Iterator<Item = Token> {
    let time = u128::from(now.0.unsigned_abs()) << 64;
    // Each is that of one claim only, so that a settlement that comes again is known by it.
    let first = u128::from(fastrand::u64(..) >> 1);
    (first..).map(move |number| Token(UNTRACKED | time | number))
}

/// Whether a job taken from a list was never locked. No time of a lock reaches this bit.
pub(super) fn is_unlocked(lease: &Lease) -> bool {
    lease.token.0 & UNTRACKED != 0
}

/// What the lock of a job holds, for scripts; `0` if it was never locked.
pub(crate) fn lock_token(lease: &Lease) -> String {
    if is_unlocked(lease) { "0".to_owned() } else { lease.token.0.to_string() }
}

impl RedisStore {
    /// Takes what is there, without waiting. Of large jobs fewer than there are.
    pub(super) async fn pop_list(&self, share: Share<'_>) -> Result<Vec<Claimed>, Error> {
        self.prepare_list(share).await?;
        let mut taken = Vec::new();
        loop {
            let missing = share.missing(&taken);
            let wanted = missing.starting + missing.held;
            let mut pop = self.pops.begin(share.place(), share.claim);
            let (popped, jobs) = match self.pop_once(missing, &mut pop).await {
                Ok(answer) => answer,
                Err(error) if taken.is_empty() => return Err(error),
                Err(_) => {
                    self.doubts.note(share.queue, share.worker);
                    return Ok(taken);
                }
            };
            pop.answered(popped > 0);
            let are_enough = jobs.len() == wanted;
            taken.extend(jobs);
            // Cancelled jobs were among them: take others instead.
            if are_enough || popped < wanted {
                return Ok(taken);
            }
        }
    }

    /// How many jobs one pop brought, and those of them that may run.
    async fn pop_once(&self, share: Share<'_>, pop: &mut Pop<'_>) -> Result<(usize, Vec<Claimed>), Error> {
        let popped = self.pop(share, pop, None).await?;
        Ok((popped.len(), self.take(share, pop.number, &popped).await?))
    }

    /// Has the server set jobs apart, and reads them in the same trip. Returns nothing from a paused queue.
    async fn pop(
        &self,
        share: Share<'_>,
        pop: &mut Pop<'_>,
        blocks_for: Option<Duration>,
    ) -> Result<Vec<Bytes>, Error> {
        let Share { queue, shard, worker, .. } = share;
        let taken = |number: u64| share.taken(&self.keys, number);
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.paused(shard, queue),
            self.keys.takers(shard, queue),
            taken(pop.number),
        ];
        keys.extend(pop.over.iter().map(|number| taken(*number)));
        let life = share.lease + blocks_for.unwrap_or_default();
        let mut call = Call::new(&self.scripts.pop, &keys)
            .arg(share.starting + share.held)
            .arg(mark(worker, pop.number))
            .arg(ms(life))
            .arg(i64::from(blocks_for.is_some()))
            .arg(SCRIPT_BYTES);
        pop.over.iter().for_each(|number| call.push(mark(worker, *number)));
        let read = redis::cmd("LRANGE").arg(taken(pop.number)).arg(0).arg(-1).take();
        let (moved, jobs) = self.link.call_and_read(shard, call, read).await?;
        pop.told();
        if int(&moved).is_none() {
            self.note_paused(queue, true);
            return Ok(Vec::new());
        }
        Ok(array(jobs).unwrap_or_default().into_iter().filter_map(bytes).collect())
    }

    /// Makes sure, once per process, that the queue can be found: whoever writes into its list from outside
    /// does not say so, and its dead letters would be nobody's.
    async fn prepare_list(&self, share: Share<'_>) -> Result<(), Error> {
        let mark = (share.queue.clone(), share.shard, share.worker.clone());
        if self.prepared.lock().unwrap_or_else(PoisonError::into_inner).contains(&mark) {
            return Ok(());
        }
        let keys = [self.keys.queues(share.shard)];
        let call = Call::new(&self.scripts.prepare, &keys).arg(member(share.queue));
        self.link.call(share.shard, call).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(mark);
        Ok(())
    }

    /// Takes what is there, or waits for it.
    pub(super) async fn await_list(
        &self,
        share: Share<'_>,
        wait: Duration,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        self.prepare_list(share).await?;
        let mut pop = self.pops.begin(share.place(), share.claim);
        let popped = self.pop(share, &mut pop, Some(wait)).await?;
        if !popped.is_empty() || self.seems_paused(share.queue) {
            let jobs = self.take(share, pop.number, &popped).await?;
            pop.answered(true);
            return Ok(jobs);
        }
        let (from, to) = (self.keys.target(share.shard, share.queue), share.taken(&self.keys, pop.number));
        // Redis 6.2 rounds 0.001 seconds down to 0 ms, which is for ever.
        let wait_secs = wait.as_secs_f64().max(0.002);
        let command = redis::cmd("BLMOVE").arg(from).arg(to).arg("RIGHT").arg("LEFT").arg(wait_secs).take();
        let answer = match self.block(share.shard, (&command, wait), interrupt).await {
            Err(error) if error.code() == Some("UNBLOCKED") => Value::Nil,
            answer => answer.map_err(|error| classify("a blocking BLMOVE", error))?,
        };
        let popped: Vec<Bytes> = bytes(answer).into_iter().collect();
        let jobs = self.take(share, pop.number, &popped).await?;
        pop.answered(true);
        Ok(jobs)
    }

    async fn put_back(&self, share: Share<'_>, pop: u64) -> Result<(), Error> {
        let Share { queue, shard, worker, .. } = share;
        let keys =
            [self.keys.target(shard, queue), share.taken(&self.keys, pop), self.keys.takers(shard, queue)];
        let call = Call::new(&self.scripts.unpop, &keys).arg(mark(worker, pop));
        self.link.call(shard, call).await.map(drop)
    }

    /// Turns popped bytes into claims: locks the tracked ones and drops the duplicates and the cancelled.
    pub(super) async fn take(
        &self,
        share: Share<'_>,
        pop: u64,
        popped: &[Bytes],
    ) -> Result<Vec<Claimed>, Error> {
        let unlocked = |id: Option<&JobId>, token: Token| Lease {
            queue: share.queue.clone(),
            job: id.cloned().unwrap_or_else(|| nameless(&JobId::generate().to_string())),
            shard: share.shard,
            token,
        };
        let mut jobs: Vec<Claimed> = popped
            .iter()
            .zip(unlocked_tokens(self.clock.now()))
            .enumerate()
            .map(|(position, (data, token))| {
                Claimed::read(data.clone(), position < share.starting, |id| unlocked(id, token))
            })
            .collect();
        let tracked: Vec<usize> = (0..jobs.len())
            .filter(|&position| jobs[position].body.as_ref().is_ok_and(|envelope| envelope.tracked()))
            .collect();
        if tracked.is_empty() {
            return Ok(jobs);
        }
        let mut keep = vec![true; jobs.len()];
        for part in portions(tracked, |position| popped[position].len()) {
            let to_lock = part.iter().map(|&position| (&jobs[position].lease.job, &popped[position]));
            let Some((token, verdicts)) = self.lock(share, pop, to_lock).await? else {
                // Taken by a read that was blocked when the queue was paused. What is locked by now stays so.
                self.put_back(share, pop).await?;
                keep.iter_mut().zip(&jobs).for_each(|(keep, job)| *keep &= !is_unlocked(&job.lease));
                break;
            };
            for (position, verdict) in part.into_iter().zip(verdicts) {
                jobs[position].lease.token = token;
                keep[position] = verdict == 1;
            }
        }
        let mut keep = keep.into_iter();
        jobs.retain(|_| keep.next().unwrap_or(false));
        Ok(jobs)
    }

    /// Locks job ids; `None` if the queue is paused.
    async fn lock<'a>(
        &self,
        share: Share<'_>,
        pop: u64,
        jobs: impl Iterator<Item = (&'a JobId, &'a Bytes)> + Clone,
    ) -> Result<Option<(Token, Vec<i64>)>, Error> {
        let (shard, queue) = (share.shard, share.queue);
        let mut keys = vec![
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.paused(shard, queue),
            share.taken(&self.keys, pop),
            self.keys.takers(shard, queue),
        ];
        keys.extend(jobs.clone().map(|(job, _)| self.keys.lock(shard, queue, job)));
        let mut call = Call::new(&self.scripts.lock, &keys)
            .arg(ms(share.lease))
            .arg(share.worker.as_str())
            .arg(mark(share.worker, pop));
        for (job, envelope) in jobs {
            call.push(job.as_str());
            call.push(&envelope[..]);
        }
        let answer = self.link.call(shard, call).await?;
        let Value::Array(mut parts) = answer else { return Ok(None) };
        let odd = || odd_answer("lock");
        let rest = parts.split_off(1);
        let token = parts.pop().and_then(text).and_then(|token| token.parse().ok()).ok_or_else(odd)?;
        let verdicts = rest.iter().map(int).collect::<Option<_>>().ok_or_else(odd)?;
        Ok(Some((Token(token), verdicts)))
    }
}
