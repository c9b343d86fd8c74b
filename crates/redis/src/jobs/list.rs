//! Claiming from a list: pops several jobs from the right.
//!
//! A tracked job is then locked by its id, so that two copies of it never run at once. An untracked
//! one has a unique id and needs no lock. Until then the server keeps copies of popped jobs
//! (`list_pops`), so that a lost reply loses no job.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tidemill_core::store::Claimed;
use tidemill_core::{Clock as _, Error, JobId, Lease, Timestamp, Token};

use super::claim::ShardClaim;
use super::list_pops::{ListPop, pop_id};
use super::stream::invalid_job_id;
use super::{MAX_SCRIPT_BYTES, ms, script_batches};
use crate::connection::ScriptCall;
use crate::connection::keys::queue_member;
use crate::connection::reply::{UNTRACKED_BIT, array, bytes, int, text};
use crate::error::{classify, unexpected_reply};
use crate::store::RedisStore;

/// Consecutive tokens for the unlocked jobs of one pop.
fn unlocked_tokens(now: Timestamp) -> impl Iterator<Item = Token> {
    let time = u128::from(now.0.unsigned_abs()) << 64;
    // Unique for each claim, so that a repeated settlement is recognized.
    let first = u128::from(fastrand::u64(..) >> 1);
    (first..).map(move |number| Token(UNTRACKED_BIT | time | number))
}

/// Whether a list job was never locked. No lock's time reaches this bit.
pub(super) fn is_unlocked(lease: &Lease) -> bool {
    lease.token.0 & UNTRACKED_BIT != 0
}

/// The value of a job's lock, for scripts; `0` if it was never locked.
pub(super) fn lock_token(lease: &Lease) -> String {
    if is_unlocked(lease) { "0".to_owned() } else { lease.token.0.to_string() }
}

impl RedisStore {
    /// Claims ready jobs, without waiting. Returns fewer jobs if they are large.
    pub(super) async fn pop_list(&self, claim: ShardClaim<'_>) -> Result<Vec<Claimed>, Error> {
        self.prepare_list(claim).await?;
        let mut taken = Vec::new();
        loop {
            let missing = claim.remaining(&taken);
            let wanted = missing.starting + missing.held;
            let mut pop = self.list_pops.start(claim.worker_list(), claim.number);
            let (popped, jobs) = match self.pop_once(missing, &mut pop).await {
                Ok(reply) => reply,
                Err(error) if taken.is_empty() => return Err(error),
                Err(_) => {
                    self.uncertain_claims.add(claim.queue, claim.worker);
                    return Ok(taken);
                }
            };
            pop.answered(popped > 0);
            let are_enough = jobs.len() == wanted;
            taken.extend(jobs);
            // Some of them were cancelled: pop others instead.
            if are_enough || popped < wanted {
                return Ok(taken);
            }
        }
    }

    /// How many jobs one pop returned, and those of them that may run.
    async fn pop_once(
        &self,
        claim: ShardClaim<'_>,
        pop: &mut ListPop<'_>,
    ) -> Result<(usize, Vec<Claimed>), Error> {
        let popped = self.pop(claim, pop, None).await?;
        Ok((popped.len(), self.lock_popped(claim, pop.number, &popped).await?))
    }

    /// Pops jobs into `taken` and reads them in one round trip. Returns nothing if the queue is
    /// paused.
    async fn pop(
        &self,
        claim: ShardClaim<'_>,
        pop: &mut ListPop<'_>,
        blocks_for: Option<Duration>,
    ) -> Result<Vec<Bytes>, Error> {
        let ShardClaim { queue, shard, worker, .. } = claim;
        let taken = |number: u64| claim.taken_key(&self.keys, number);
        let mut keys = vec![
            self.keys.target(shard, queue),
            self.keys.paused(shard, queue),
            self.keys.takers(shard, queue),
            taken(pop.number),
        ];
        keys.extend(pop.finished.iter().map(|number| taken(*number)));
        let life = claim.lease + blocks_for.unwrap_or_default();
        let mut call = ScriptCall::new(&self.scripts.pop, &keys)
            .arg(claim.starting + claim.held)
            .arg(pop_id(worker, pop.number))
            .arg(ms(life))
            .arg(i64::from(blocks_for.is_some()))
            .arg(MAX_SCRIPT_BYTES);
        pop.finished.iter().for_each(|number| call.push(pop_id(worker, *number)));
        let read = redis::cmd("LRANGE").arg(taken(pop.number)).arg(0).arg(-1).take();
        let (moved, jobs) = self.connections.call_and_read(shard, call, read).await?;
        pop.acknowledged();
        if int(&moved).is_none() {
            self.cache_paused(queue, true);
            return Ok(Vec::new());
        }
        Ok(array(jobs).unwrap_or_default().into_iter().filter_map(bytes).collect())
    }

    /// Registers the queue, once per process: other programs that push into its list do not, and
    /// its dead letters could not be found.
    async fn prepare_list(&self, claim: ShardClaim<'_>) -> Result<(), Error> {
        let prepared_key = (claim.queue.clone(), claim.shard, claim.worker.clone());
        if self.prepared.lock().unwrap_or_else(PoisonError::into_inner).contains(&prepared_key) {
            return Ok(());
        }
        let keys = [self.keys.queues(claim.shard)];
        let call = ScriptCall::new(&self.scripts.prepare, &keys).arg(queue_member(claim.queue));
        self.connections.call(claim.shard, call).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(prepared_key);
        Ok(())
    }

    /// Claims ready jobs, or waits for them.
    pub(super) async fn wait_on_list(
        &self,
        claim: ShardClaim<'_>,
        wait: Duration,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        self.prepare_list(claim).await?;
        let mut pop = self.list_pops.start(claim.worker_list(), claim.number);
        let popped = self.pop(claim, &mut pop, Some(wait)).await?;
        if !popped.is_empty() || self.seems_paused(claim.queue) {
            let jobs = self.lock_popped(claim, pop.number, &popped).await?;
            pop.answered(true);
            return Ok(jobs);
        }
        let (from, to) =
            (self.keys.target(claim.shard, claim.queue), claim.taken_key(&self.keys, pop.number));
        // Redis 6.2 rounds 0.001 seconds down to 0 ms, which blocks forever.
        let wait_secs = wait.as_secs_f64().max(0.002);
        let command = redis::cmd("BLMOVE").arg(from).arg(to).arg("RIGHT").arg("LEFT").arg(wait_secs).take();
        let reply = match self.read_on_own_connection(claim.shard, (&command, wait), interrupt).await {
            Err(error) if error.code() == Some("UNBLOCKED") => Value::Nil,
            reply => reply.map_err(|error| classify("a blocking BLMOVE", error))?,
        };
        let popped: Vec<Bytes> = bytes(reply).into_iter().collect();
        let jobs = self.lock_popped(claim, pop.number, &popped).await?;
        pop.answered(true);
        Ok(jobs)
    }

    async fn return_popped(&self, claim: ShardClaim<'_>, pop: u64) -> Result<(), Error> {
        let ShardClaim { queue, shard, worker, .. } = claim;
        let keys = [
            self.keys.target(shard, queue),
            claim.taken_key(&self.keys, pop),
            self.keys.takers(shard, queue),
        ];
        let call = ScriptCall::new(&self.scripts.unpop, &keys).arg(pop_id(worker, pop));
        self.connections.call(shard, call).await.map(drop)
    }

    /// Turns popped bytes into claims: locks tracked jobs, and drops duplicates and cancelled ones.
    pub(super) async fn lock_popped(
        &self,
        claim: ShardClaim<'_>,
        pop: u64,
        popped: &[Bytes],
    ) -> Result<Vec<Claimed>, Error> {
        let unlocked = |id: Option<&JobId>, token: Token| Lease {
            queue: claim.queue.clone(),
            job: id.cloned().unwrap_or_else(|| invalid_job_id(&JobId::generate().to_string())),
            shard: claim.shard,
            token,
        };
        let mut jobs: Vec<Claimed> = popped
            .iter()
            .zip(unlocked_tokens(self.clock.now()))
            .enumerate()
            .map(|(position, (data, token))| {
                Claimed::read(data.clone(), position < claim.starting, |id| unlocked(id, token))
            })
            .collect();
        let tracked: Vec<usize> = (0..jobs.len())
            .filter(|&position| jobs[position].body.as_ref().is_ok_and(|envelope| envelope.tracked()))
            .collect();
        if tracked.is_empty() {
            return Ok(jobs);
        }
        let mut keep = vec![true; jobs.len()];
        for part in script_batches(tracked, |position| popped[position].len()) {
            let to_lock = part.iter().map(|&position| (&jobs[position].lease.job, &popped[position]));
            let Some((token, verdicts)) = self.lock(claim, pop, to_lock).await? else {
                // Popped by a read that was blocked when the queue was paused. Locked jobs stay
                // locked.
                self.return_popped(claim, pop).await?;
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
        claim: ShardClaim<'_>,
        pop: u64,
        jobs: impl Iterator<Item = (&'a JobId, &'a Bytes)> + Clone,
    ) -> Result<Option<(Token, Vec<i64>)>, Error> {
        let (shard, queue) = (claim.shard, claim.queue);
        let mut keys = vec![
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.paused(shard, queue),
            claim.taken_key(&self.keys, pop),
            self.keys.takers(shard, queue),
        ];
        keys.extend(jobs.clone().map(|(job, _)| self.keys.lock(shard, queue, job)));
        let mut call = ScriptCall::new(&self.scripts.lock, &keys)
            .arg(ms(claim.lease))
            .arg(claim.worker.as_str())
            .arg(pop_id(claim.worker, pop));
        for (job, envelope) in jobs {
            call.push(job.as_str());
            call.push(&envelope[..]);
        }
        let reply = self.connections.call(shard, call).await?;
        let Value::Array(mut parts) = reply else { return Ok(None) };
        let unexpected = || unexpected_reply("lock");
        let rest = parts.split_off(1);
        let token = parts.pop().and_then(text).and_then(|token| token.parse().ok()).ok_or_else(unexpected)?;
        let verdicts = rest.iter().map(int).collect::<Option<_>>().ok_or_else(unexpected)?;
        Ok(Some((Token(token), verdicts)))
    }
}
