//! Claiming: over all shards at once, in shuffled order, with the batch size spread over them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::{Error, Guarantee, HolderId, Queue};
use tokio::time::{Instant, sleep, timeout};

use super::list_pops::{Place, mark};
use crate::connection::breaker::{SHARD_TIMEOUT, silent};
use crate::connection::keys::Keys;
use crate::store::RedisStore;

/// How long a queue that was seen paused is believed to be so.
const PAUSED_FOR: Duration = Duration::from_secs(1);

/// How long a read blocks that cannot be ended before.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// How long jobs that some shards gave wait for the answers of others.
const LATE_TIMEOUT: Duration = Duration::from_millis(500);

/// What one claim asks of one shard.
#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    pub(super) queue: &'a Queue,
    pub(super) worker: &'a HolderId,
    pub(super) lease: Duration,
    pub(super) shard: u16,
    /// The number of the claim, for pops from a list.
    pub(super) claim: u64,
    /// Jobs to start at once.
    pub(super) starting: usize,
    /// Jobs to hold beyond those.
    pub(super) held: usize,
}

impl Share<'_> {
    pub(super) fn place(self) -> Place {
        (self.queue.clone(), self.shard, self.worker.clone())
    }

    /// Where the server keeps copies of what a pop took.
    pub(super) fn taken(self, keys: &Keys, pop: u64) -> String {
        keys.taken(self.shard, self.queue, &mark(self.worker, pop))
    }

    /// What is still to be taken after `jobs`.
    pub(super) fn missing(self, jobs: &[Claimed]) -> Self {
        let started = jobs.iter().filter(|job| job.started).count();
        let held = jobs.len() - started;
        let (starting, held) = (self.starting.saturating_sub(started), self.held.saturating_sub(held));
        Self { starting, held, ..self }
    }
}

/// What several shards gave. What some gave is claimed; an error of others must not strand it.
#[derive(Default)]
struct Taken {
    jobs: Vec<Claimed>,
    /// How many shards have answered.
    answers: usize,
    failure: Option<Error>,
}

/// A shard's part of a claim.
type Part = (u16, Result<Vec<Claimed>, Error>);

/// The parts of a claim that are under way.
struct Asked<'a, F> {
    share: Share<'a>,
    /// Those that have not answered yet.
    shards: Vec<u16>,
    parts: FuturesUnordered<F>,
    /// How long they have, unless there are jobs before.
    limit: Duration,
}

impl Taken {
    /// The jobs, those that start first. A shard that does not answer is no error while others do; another failure is, if it
    /// would go unnoticed otherwise.
    fn sorted(mut self) -> Result<Vec<Claimed>, Error> {
        self.jobs.sort_by_key(|job| !job.started);
        match self.failure {
            Some(error) if self.answers == 0 => Err(error),
            Some(error) if self.jobs.is_empty() && !error.is_unavailable() => Err(error),
            _ => Ok(self.jobs),
        }
    }
}

impl RedisStore {
    pub(crate) async fn claim_jobs(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        if claim.queue.guarantee == Guarantee::AtLeastOnce {
            return self.claim_as(0, claim).await;
        }
        let pops = self.pops.claim(claim.queue, claim.worker, self.keys.shards());
        let jobs = self.claim_as(pops.number, claim).await;
        pops.ended();
        jobs
    }

    async fn claim_as(&self, number: u64, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let ClaimParams { queue, worker, lease, max, starting, wait, interrupt } = claim;
        if !wait.is_zero() {
            self.restrictions_logged.call_once(|| self.log_restrictions());
        }
        // A read that is blocked does not notice that its queue was resumed; who resumed it says so.
        let interrupt = async move {
            tokio::select! {
                () = interrupt => {}
                () = self.waker.news_of(queue), if !wait.is_zero() => {}
            }
        };
        let interrupt = interrupt.boxed();
        let deadline = Instant::now() + wait;
        if self.seems_paused(queue) {
            return self.sit_out(deadline, interrupt).await;
        }
        let starting = starting.min(max);
        let share = Share { queue, worker, lease, shard: 0, claim: number, starting, held: max - starting };
        // One read that blocks does both: it takes what is there, and waits if nothing is.
        let blocks = starting > 0 && !wait.is_zero();
        if blocks && share.held == 0 && self.keys.shards() == 1 {
            return self.await_jobs(share, wait, interrupt).await;
        }
        let taken = self.take_spread(share).await?;
        if !taken.is_empty() || wait.is_zero() {
            return Ok(taken);
        }
        if !blocks {
            return self.sit_out(deadline, interrupt).await;
        }
        self.await_any(share, wait, interrupt).await
    }

    fn log_restrictions(&self) {
        if let Some(restrictions) = self.rights.restrictions() {
            tracing::warn!("{restrictions}");
        }
    }

    /// Takes what is there, everywhere at once.
    async fn take_spread(&self, share: Share<'_>) -> Result<Vec<Claimed>, Error> {
        if self.keys.shards() == 1 {
            return self.take_from(share).await;
        }
        let shards = self.reachable_shards();
        let starting = spread(share.starting, shards.len());
        let held = spread(share.held, shards.len());
        let parts = (0..shards.len()).filter(|&i| starting[i] + held[i] > 0).map(|i| {
            let part = Share { shard: shards[i], starting: starting[i], held: held[i], ..share };
            async move { (part.shard, self.take_from(part).await) }
        });
        let of_parts = (0..shards.len()).filter(|&i| starting[i] + held[i] > 0).map(|i| shards[i]).collect();
        let asked = Asked { share, shards: of_parts, parts: parts.collect(), limit: SHARD_TIMEOUT };
        let mut taken = self.gather(asked, std::future::pending(), || {}).await;
        // Shards that gave all they were asked for, or were not asked, may have what others lacked.
        let gave = |taken: &Taken, shard| taken.jobs.iter().filter(|job| job.lease.shard == shard).count();
        let may_have_more: Vec<u16> = (0..shards.len())
            .filter(|&i| gave(&taken, shards[i]) == starting[i] + held[i])
            .map(|i| shards[i])
            .collect();
        for shard in may_have_more {
            let missing = share.missing(&taken.jobs);
            if missing.starting + missing.held == 0 {
                break;
            }
            // Its server may have been found silent since.
            if self.breaker.is_open(shard) {
                continue;
            }
            let limit = if taken.jobs.is_empty() { SHARD_TIMEOUT } else { LATE_TIMEOUT };
            let part = self.take_from(Share { shard, ..missing });
            let answer = self.breaker.in_time(shard, limit, part).await;
            self.add_part(&mut taken, share, (shard, answer));
        }
        taken.sorted()
    }

    /// Collects the parts of a claim. As soon as there are jobs, or `interrupt` completes, `stop` is called, and the other
    /// shards have a moment left. What a shard gives later is recovered when it answers again.
    async fn gather<F>(
        &self,
        asked: Asked<'_, F>,
        interrupt: impl Future<Output = ()>,
        stop: impl Fn(),
    ) -> Taken
    where
        F: Future<Output = Part>,
    {
        let Asked { share, shards: mut waiting, mut parts, limit } = asked;
        let (mut taken, mut has_stopped) = (Taken::default(), false);
        let is_bounded = self.link.options().cluster;
        let mut limit = pin!(sleep(limit));
        let mut interrupt = pin!(interrupt);
        while !waiting.is_empty() {
            let stops = tokio::select! {
                biased;
                Some(part) = parts.next() => {
                    waiting.retain(|shard| *shard != part.0);
                    self.add_part(&mut taken, share, part);
                    !taken.jobs.is_empty() || taken.failure.as_ref().is_some_and(|error| !error.is_unavailable())
                }
                () = &mut interrupt, if !has_stopped => true,
                () = &mut limit, if is_bounded => break,
            };
            if stops && !has_stopped {
                has_stopped = true;
                stop();
                limit.as_mut().reset(Instant::now() + LATE_TIMEOUT);
            }
        }
        for shard in waiting {
            self.add_part(&mut taken, share, (shard, Err(silent(shard, SHARD_TIMEOUT))));
        }
        taken
    }

    fn add_part(&self, taken: &mut Taken, share: Share<'_>, (shard, answer): Part) {
        match answer {
            Ok(jobs) => {
                taken.answers += 1;
                taken.jobs.extend(jobs);
            }
            Err(error) => {
                self.breaker.claim_failed(shard, (share.queue, share.worker), &error);
                // One that others cause as well must not hide one that has to be seen.
                if taken.failure.as_ref().is_none_or(Error::is_unavailable) {
                    taken.failure = Some(error);
                }
            }
        }
    }

    async fn take_from(&self, share: Share<'_>) -> Result<Vec<Claimed>, Error> {
        match share.queue.guarantee {
            Guarantee::AtLeastOnce => self.read_stream(share).await,
            Guarantee::AtMostOnce => self.pop_list(share).await,
        }
    }

    /// Waits for work on one shard.
    async fn await_jobs<I>(
        &self,
        share: Share<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        if self.rights.may_unblock() {
            return self.read_blocking(share, wait, interrupt).await;
        }
        // A read that cannot be ended blocks for a short time only, again and again.
        let (mut interrupt, deadline) = (pin!(interrupt), Instant::now() + wait);
        loop {
            // Never zero, which would block for ever.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let block = self.longest_block().min(left);
            let taken = self.read_blocking(share, block, std::future::pending()).await?;
            let is_over = Instant::now() >= deadline || interrupt.as_mut().now_or_never().is_some();
            if !taken.is_empty() || is_over || self.seems_paused(share.queue) {
                return Ok(taken);
            }
        }
    }

    async fn read_blocking<I>(
        &self,
        share: Share<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        match share.queue.guarantee {
            Guarantee::AtLeastOnce => self.await_stream(share, wait, interrupt).await,
            Guarantee::AtMostOnce => self.await_list(share, wait, interrupt).await,
        }
    }

    /// A job that one shard gave waits until the reads on the others have ended.
    fn longest_block(&self) -> Duration {
        if self.keys.shards() == 1 { LONGEST_BLOCK } else { LONGEST_BLOCK / 5 }
    }

    /// Waits for work on every shard. As soon as one has some, the reads on the others are ended; each may
    /// still bring a job. So each asks for one only.
    async fn await_any<I>(
        &self,
        share: Share<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        if self.keys.shards() == 1 {
            return self.await_jobs(share, wait, interrupt).await;
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (shards, parts) = (self.reachable_shards(), FuturesUnordered::new());
        for &shard in &shards {
            let mut stopped = stopped.clone();
            let end = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let part = Share { shard, starting: 1, held: 0, ..share };
            parts.push(async move { (shard, self.await_jobs(part, wait, end).await) });
        }
        let leaves_some_out = shards.len() < usize::from(self.keys.shards());
        let interrupt = async {
            tokio::select! {
                () = interrupt => {}
                () = self.breaker.closed(), if leaves_some_out => {}
            }
        };
        let stop = || {
            stop.send_replace(true);
        };
        let asked = Asked { share, shards, parts, limit: wait + SHARD_TIMEOUT };
        let taken = self.gather(asked, interrupt, stop).await;
        let mut jobs = taken.sorted()?;
        let asked = share.starting.min(jobs.len());
        // They are claimed all the same: at worst a crash counts for one that had not started.
        let held_back = timeout(SHARD_TIMEOUT, self.hold_back(&mut jobs[asked..], share.worker)).await;
        if let Ok(Err(error)) = held_back {
            tracing::warn!(error = error.full_message(), "cannot mark jobs as held");
        }
        Ok(jobs)
    }

    /// Waits without reading: the queue is paused, or only held jobs were asked for and there are none.
    async fn sit_out(
        &self,
        deadline: Instant,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        let pause = deadline.min(Instant::now() + PAUSED_FOR);
        tokio::select! {
            () = tokio::time::sleep_until(pause) => {}
            () = interrupt => {}
        }
        Ok(Vec::new())
    }

    pub(super) fn seems_paused(&self, queue: &Queue) -> bool {
        let mut paused = self.paused.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match paused.get(queue) {
            Some(until) if *until > Instant::now() => true,
            Some(_) => {
                paused.remove(queue);
                false
            }
            None => false,
        }
    }

    /// Takes note that a queue is paused, or is not any more.
    pub(crate) fn note_paused(&self, queue: &Queue, is: bool) {
        let mut paused = self.paused.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if is {
            paused.insert(queue.clone(), Instant::now() + PAUSED_FOR);
        } else {
            paused.remove(queue);
        }
    }
}

/// Spreads `total` over `parts`: 10 over 3 gives 4, 3, 3.
fn spread(total: usize, parts: usize) -> Vec<usize> {
    (0..parts).map(|part| total / parts + usize::from(part < total % parts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_a_batch_evenly() {
        assert_eq!(spread(10, 3), [4, 3, 3]);
        assert_eq!(spread(10, 2), [5, 5]);
        assert_eq!(spread(1, 3), [1, 0, 0]);
    }
}
