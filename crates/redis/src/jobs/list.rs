//! Taking from a list: popped from the right, several at a time.
//!
//! A tracked job is then locked by its id, so that two copies of it never run at once. An untracked one has an
//! id that exists once by construction; it is taken, and that is all.

use std::future::Future;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use redis::{Pipeline, Value};
use tidemill_core::store::Claimed;
use tidemill_core::{Error, JobId, Lease, Token};

use super::claim::Share;
use super::ms;
use super::stream::nameless;
use crate::error::{classify, odd_answer};
use crate::keys::member;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{array, bytes, int, text};

/// The token of a job that was never locked.
pub(super) const UNLOCKED: Token = Token(0);

impl RedisStore {
    /// Takes what is there, without waiting. A list cannot refuse a pop, so a paused queue is noticed in the
    /// same trip and what was popped goes back to where it was.
    pub(super) async fn pop_list(&self, share: Share<'_>) -> Result<Vec<Claimed>, Error> {
        self.prepare_list(share).await?;
        let target = self.keys.target(share.shard, share.queue);
        let mut batch = Pipeline::new();
        batch.cmd("EXISTS").arg(self.keys.paused(share.shard, share.queue));
        batch.cmd("RPOP").arg(&target).arg(share.starting + share.held);
        let answer =
            self.link.pipeline(share.shard, &batch).await.map_err(|error| classify("RPOP", error))?;
        let [paused, popped] = <[Value; 2]>::try_from(answer).map_err(|_| odd_answer("RPOP"))?;
        let popped: Vec<Bytes> = array(popped).unwrap_or_default().into_iter().filter_map(bytes).collect();
        if int(&paused) == Some(1) {
            self.note_paused(share.queue, true);
            self.put_back(share, &popped).await?;
            return Ok(Vec::new());
        }
        let wanted = share.starting + share.held;
        let full = popped.len() == wanted;
        let mut taken = self.take(share, popped).await?;
        // Cancelled jobs were among them: take others instead.
        if full && taken.len() < wanted {
            taken.extend(Box::pin(self.pop_list(share.missing(&taken))).await?);
        }
        Ok(taken)
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
        let taken = self.pop_list(share).await?;
        if !taken.is_empty() || self.seems_paused(share.queue) {
            return Ok(taken);
        }
        let target = self.keys.target(share.shard, share.queue);
        let command = redis::cmd("BRPOP").arg(target).arg(wait.as_secs_f64().max(0.001)).take();
        let answer = self.block(share.shard, (&command, wait), interrupt).await;
        let answer = match answer {
            Err(error) if error.code() == Some("UNBLOCKED") => return Ok(Vec::new()),
            answer => answer.map_err(|error| classify("a blocking BRPOP", error))?,
        };
        let Some(popped) = array(answer).unwrap_or_default().into_iter().nth(1).and_then(bytes) else {
            return Ok(Vec::new());
        };
        self.take(share, vec![popped]).await
    }

    async fn put_back(&self, share: Share<'_>, popped: &[Bytes]) -> Result<(), Error> {
        if popped.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("RPUSH");
        command.arg(self.keys.target(share.shard, share.queue));
        for envelope in popped.iter().rev() {
            command.arg(&envelope[..]);
        }
        self.link.query::<i64>(share.shard, &command).await.map(drop)
    }

    /// Turns popped bytes into claims: locks the tracked ones and drops the duplicates and the cancelled.
    async fn take(&self, share: Share<'_>, popped: Vec<Bytes>) -> Result<Vec<Claimed>, Error> {
        let unlocked = |id: Option<&JobId>| Lease {
            queue: share.queue.clone(),
            job: id.cloned().unwrap_or_else(|| nameless(&JobId::generate().to_string())),
            shard: share.shard,
            token: UNLOCKED,
        };
        let mut jobs: Vec<Claimed> = popped
            .iter()
            .enumerate()
            .map(|(position, data)| Claimed::read(data.clone(), position < share.starting, unlocked))
            .collect();
        let tracked: Vec<usize> = (0..jobs.len())
            .filter(|&position| jobs[position].body.as_ref().is_ok_and(|envelope| envelope.tracked()))
            .collect();
        if tracked.is_empty() {
            return Ok(jobs);
        }
        let to_lock = tracked.iter().map(|&position| (&jobs[position].lease.job, &popped[position]));
        let locked = self.lock(share, to_lock).await;
        // Taken, but not for good: a queue that is paused and a lock that failed give the jobs back.
        if !matches!(locked, Ok(Some(_))) {
            self.put_back(share, &popped).await?;
        }
        let Some(locks) = locked? else { return Ok(Vec::new()) };
        let (token, verdicts) = locks;
        let mut keep = vec![true; jobs.len()];
        for (position, verdict) in tracked.into_iter().zip(verdicts) {
            jobs[position].lease.token = token;
            keep[position] = verdict == 1;
        }
        let mut keep = keep.into_iter();
        jobs.retain(|_| keep.next().unwrap_or(false));
        Ok(jobs)
    }

    /// Locks job ids; `None` if the queue is paused.
    async fn lock<'a>(
        &self,
        share: Share<'_>,
        jobs: impl Iterator<Item = (&'a JobId, &'a Bytes)> + Clone,
    ) -> Result<Option<(Token, Vec<i64>)>, Error> {
        let (shard, queue) = (share.shard, share.queue);
        let mut keys = vec![
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.paused(shard, queue),
        ];
        keys.extend(jobs.clone().map(|(job, _)| self.keys.lock(shard, queue, job)));
        let mut call = Call::new(&self.scripts.lock, &keys).arg(ms(share.lease)).arg(share.worker.as_str());
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
