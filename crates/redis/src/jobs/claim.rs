//! Claiming jobs: from all shards concurrently, in random order, with the batch spread over them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tidemill_core::store::{ClaimParams, Claimed};
use tidemill_core::{Error, Guarantee, HolderId, Queue};
use tokio::time::{Instant, sleep, timeout};

use super::list_pops::{WorkerList, pop_id};
use crate::connection::breaker::{SHARD_TIMEOUT, shard_timeout_error};
use crate::connection::keys::Keys;
use crate::store::RedisStore;
use crate::wake::queue_changed;

/// How long a queue that was seen paused is assumed to be paused.
const PAUSED_CACHE_TTL: Duration = Duration::from_secs(1);

/// Maximum block time of a read that cannot be unblocked.
const MAX_UNINTERRUPTIBLE_BLOCK: Duration = Duration::from_secs(1);

/// How long claimed jobs wait for the replies of other shards.
const LATE_TIMEOUT: Duration = Duration::from_millis(500);

/// The part of a claim for one shard.
#[derive(Clone, Copy)]
pub(super) struct ShardClaim<'a> {
    pub(super) queue: &'a Queue,
    pub(super) worker: &'a HolderId,
    pub(super) lease: Duration,
    pub(super) shard: u16,
    /// The number of the claim, for pops from a list.
    pub(super) number: u64,
    /// Jobs to start at once.
    pub(super) starting: usize,
    /// Jobs to hold in addition.
    pub(super) held: usize,
}

impl ShardClaim<'_> {
    pub(super) fn worker_list(self) -> WorkerList {
        (self.queue.clone(), self.shard, self.worker.clone())
    }

    /// The key with the copies of a pop.
    pub(super) fn taken_key(self, keys: &Keys, pop: u64) -> String {
        keys.taken(self.shard, self.queue, &pop_id(self.worker, pop))
    }

    /// The claim that remains after `jobs`.
    pub(super) fn remaining(self, jobs: &[Claimed]) -> Self {
        let started = jobs.iter().filter(|job| job.started).count();
        let held = jobs.len() - started;
        let (starting, held) = (self.starting.saturating_sub(started), self.held.saturating_sub(held));
        Self { starting, held, ..self }
    }
}

/// The results of several shards. Jobs of some are claimed; errors of others must not strand them.
#[derive(Default)]
struct ClaimResult {
    jobs: Vec<Claimed>,
    /// How many shards have replied.
    replies: usize,
    failure: Option<Error>,
}

/// The result of one shard.
type ShardResult = (u16, Result<Vec<Claimed>, Error>);

/// The parts of a claim in progress.
struct PendingClaims<'a, F> {
    claim: ShardClaim<'a>,
    /// The shards that have not replied yet.
    shards: Vec<u16>,
    parts: FuturesUnordered<F>,
    /// The time limit, unless there are jobs before.
    limit: Duration,
}

impl ClaimResult {
    /// The jobs, started ones first. A shard that does not respond is no error while others do.
    /// Another failure is an error if it would go unnoticed otherwise.
    fn sorted(mut self) -> Result<Vec<Claimed>, Error> {
        self.jobs.sort_by_key(|job| !job.started);
        match self.failure {
            Some(error) if self.replies == 0 => Err(error),
            Some(error) if self.jobs.is_empty() && !error.is_unavailable() => Err(error),
            _ => Ok(self.jobs),
        }
    }
}

impl RedisStore {
    pub(crate) async fn claim_jobs(&self, params: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        if params.queue.guarantee == Guarantee::AtLeastOnce {
            return self.claim_numbered(0, params).await;
        }
        let pops = self.list_pops.start_claim(params.queue, params.worker, self.keys.shards());
        let jobs = self.claim_numbered(pops.number, params).await;
        pops.ended();
        jobs
    }

    async fn claim_numbered(&self, number: u64, params: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let ClaimParams { queue, worker, lease, max, starting, wait, interrupt } = params;
        if !wait.is_zero() {
            self.restrictions_logged.call_once(|| self.log_restrictions());
        }
        // A blocked read does not notice that its queue was resumed; a wake-up does.
        let interrupt = async move {
            tokio::select! {
                () = interrupt => {}
                () = queue_changed(&self.bus, queue), if !wait.is_zero() => {}
            }
        };
        let interrupt = interrupt.boxed();
        let deadline = Instant::now() + wait;
        if self.seems_paused(queue) {
            return self.wait_without_reading(deadline, interrupt).await;
        }
        let starting = starting.min(max);
        let claim = ShardClaim { queue, worker, lease, shard: 0, number, starting, held: max - starting };
        // One blocking read does both: it returns ready jobs, or waits for them.
        let blocks = starting > 0 && !wait.is_zero();
        if blocks && claim.held == 0 && self.keys.shards() == 1 {
            return self.wait_in_shard(claim, wait, interrupt).await;
        }
        let claimed = self.claim_ready(claim).await?;
        if !claimed.is_empty() || wait.is_zero() {
            return Ok(claimed);
        }
        if !blocks {
            return self.wait_without_reading(deadline, interrupt).await;
        }
        self.wait_all_shards(claim, wait, interrupt).await
    }

    fn log_restrictions(&self) {
        if let Some(restrictions) = self.permissions.restrictions() {
            tracing::warn!("{restrictions}");
        }
    }

    /// Claims ready jobs of all shards concurrently.
    async fn claim_ready(&self, claim: ShardClaim<'_>) -> Result<Vec<Claimed>, Error> {
        if self.keys.shards() == 1 {
            return self.claim_in_shard(claim).await;
        }
        let shards = self.reachable_shards();
        let starting = spread(claim.starting, shards.len());
        let held = spread(claim.held, shards.len());
        let parts = (0..shards.len()).filter(|&i| starting[i] + held[i] > 0).map(|i| {
            let shard_claim = ShardClaim { shard: shards[i], starting: starting[i], held: held[i], ..claim };
            async move { (shard_claim.shard, self.claim_in_shard(shard_claim).await) }
        });
        let of_parts = (0..shards.len()).filter(|&i| starting[i] + held[i] > 0).map(|i| shards[i]).collect();
        let pending = PendingClaims { claim, shards: of_parts, parts: parts.collect(), limit: SHARD_TIMEOUT };
        let mut claimed = self.collect_results(pending, std::future::pending(), || {}).await;
        // Shards that returned all requested jobs, or were not asked, may have more.
        let gave =
            |claimed: &ClaimResult, shard| claimed.jobs.iter().filter(|job| job.lease.shard == shard).count();
        let may_have_more: Vec<u16> = (0..shards.len())
            .filter(|&i| gave(&claimed, shards[i]) == starting[i] + held[i])
            .map(|i| shards[i])
            .collect();
        for shard in may_have_more {
            let missing = claim.remaining(&claimed.jobs);
            if missing.starting + missing.held == 0 {
                break;
            }
            // Its server may have become unreachable since.
            if self.breaker.is_open(shard) {
                continue;
            }
            let limit = if claimed.jobs.is_empty() { SHARD_TIMEOUT } else { LATE_TIMEOUT };
            let shard_claim = self.claim_in_shard(ShardClaim { shard, ..missing });
            let result = self.breaker.within(shard, limit, shard_claim).await;
            self.add_result(&mut claimed, claim, (shard, result));
        }
        claimed.sorted()
    }

    /// Collects the results of shards. With the first jobs, or when `interrupt` completes, it calls
    /// `stop` and waits `LATE_TIMEOUT` for the other shards. Jobs that a shard returns later are
    /// recovered when it responds again.
    async fn collect_results<F>(
        &self,
        pending: PendingClaims<'_, F>,
        interrupt: impl Future<Output = ()>,
        stop: impl Fn(),
    ) -> ClaimResult
    where
        F: Future<Output = ShardResult>,
    {
        let PendingClaims { claim, shards: mut waiting, mut parts, limit } = pending;
        let (mut claimed, mut has_stopped) = (ClaimResult::default(), false);
        let is_bounded = self.connections.options().cluster;
        let mut limit = pin!(sleep(limit));
        let mut interrupt = pin!(interrupt);
        while !waiting.is_empty() {
            let stops = tokio::select! {
                biased;
                Some(shard_claim) = parts.next() => {
                    waiting.retain(|shard| *shard != shard_claim.0);
                    self.add_result(&mut claimed, claim, shard_claim);
                    !claimed.jobs.is_empty() || claimed.failure.as_ref().is_some_and(|error| !error.is_unavailable())
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
            self.add_result(&mut claimed, claim, (shard, Err(shard_timeout_error(shard, SHARD_TIMEOUT))));
        }
        claimed
    }

    fn add_result(&self, claimed: &mut ClaimResult, claim: ShardClaim<'_>, (shard, result): ShardResult) {
        match result {
            Ok(jobs) => {
                claimed.replies += 1;
                claimed.jobs.extend(jobs);
            }
            Err(error) => {
                self.breaker.record_claim_failure(shard, (claim.queue, claim.worker), &error);
                // An outage must not hide an error that has to be reported.
                if claimed.failure.as_ref().is_none_or(Error::is_unavailable) {
                    claimed.failure = Some(error);
                }
            }
        }
    }

    async fn claim_in_shard(&self, claim: ShardClaim<'_>) -> Result<Vec<Claimed>, Error> {
        match claim.queue.guarantee {
            Guarantee::AtLeastOnce => self.read_stream(claim).await,
            Guarantee::AtMostOnce => self.pop_list(claim).await,
        }
    }

    /// Waits for jobs of one shard.
    async fn wait_in_shard<I>(
        &self,
        claim: ShardClaim<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        if self.permissions.may_unblock() {
            return self.read_blocking(claim, wait, interrupt).await;
        }
        // A read that cannot be unblocked blocks only for a short time, repeatedly.
        let (mut interrupt, deadline) = (pin!(interrupt), Instant::now() + wait);
        loop {
            // Never zero, which would block forever.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let block = self.max_block().min(left);
            let claimed = self.read_blocking(claim, block, std::future::pending()).await?;
            let is_over = Instant::now() >= deadline || interrupt.as_mut().now_or_never().is_some();
            if !claimed.is_empty() || is_over || self.seems_paused(claim.queue) {
                return Ok(claimed);
            }
        }
    }

    async fn read_blocking<I>(
        &self,
        claim: ShardClaim<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        match claim.queue.guarantee {
            Guarantee::AtLeastOnce => self.wait_on_stream(claim, wait, interrupt).await,
            Guarantee::AtMostOnce => self.wait_on_list(claim, wait, interrupt).await,
        }
    }

    /// Maximum block time: a job of one shard waits until the reads on the others have ended.
    fn max_block(&self) -> Duration {
        if self.keys.shards() == 1 { MAX_UNINTERRUPTIBLE_BLOCK } else { MAX_UNINTERRUPTIBLE_BLOCK / 5 }
    }

    /// Waits for jobs of any shard. The first job unblocks the reads on the others, each of which
    /// may still return one. So each asks for one job only.
    async fn wait_all_shards<I>(
        &self,
        claim: ShardClaim<'_>,
        wait: Duration,
        interrupt: I,
    ) -> Result<Vec<Claimed>, Error>
    where
        I: Future<Output = ()>,
    {
        if self.keys.shards() == 1 {
            return self.wait_in_shard(claim, wait, interrupt).await;
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (shards, parts) = (self.reachable_shards(), FuturesUnordered::new());
        for &shard in &shards {
            let mut stopped = stopped.clone();
            let end = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let shard_claim = ShardClaim { shard, starting: 1, held: 0, ..claim };
            parts.push(async move { (shard, self.wait_in_shard(shard_claim, wait, end).await) });
        }
        let leaves_some_out = shards.len() < usize::from(self.keys.shards());
        let interrupt = async {
            tokio::select! {
                () = interrupt => {}
                () = self.breaker.shard_restored(), if leaves_some_out => {}
            }
        };
        let stop = || {
            stop.send_replace(true);
        };
        let pending = PendingClaims { claim, shards, parts, limit: wait + SHARD_TIMEOUT };
        let claimed = self.collect_results(pending, interrupt, stop).await;
        let mut jobs = claimed.sorted()?;
        let pending = claim.starting.min(jobs.len());
        // They are claimed anyway: at worst a crash counts for one that had not started.
        let held_back = timeout(SHARD_TIMEOUT, self.unstart_jobs(&mut jobs[pending..], claim.worker)).await;
        if let Ok(Err(error)) = held_back {
            tracing::warn!(error = error.full_message(), "cannot mark jobs as held");
        }
        Ok(jobs)
    }

    /// Waits without reading: the queue is paused, or there are no jobs to hold.
    async fn wait_without_reading(
        &self,
        deadline: Instant,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Vec<Claimed>, Error> {
        let pause = deadline.min(Instant::now() + PAUSED_CACHE_TTL);
        tokio::select! {
            () = tokio::time::sleep_until(pause) => {}
            () = interrupt => {}
        }
        Ok(Vec::new())
    }

    pub(super) fn seems_paused(&self, queue: &Queue) -> bool {
        let mut paused = self.paused_queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match paused.get(queue) {
            Some(until) if *until > Instant::now() => true,
            Some(_) => {
                paused.remove(queue);
                false
            }
            None => false,
        }
    }

    /// Records that a queue is paused or resumed.
    pub(crate) fn cache_paused(&self, queue: &Queue, is_paused: bool) {
        let mut paused = self.paused_queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_paused {
            paused.insert(queue.clone(), Instant::now() + PAUSED_CACHE_TTL);
        } else {
            paused.remove(queue);
        }
    }
}

/// Spreads `total` over `parts`: 10 over 3 gives 4, 3, 3.
fn spread(total: usize, parts: usize) -> Vec<usize> {
    (0..parts).map(|shard_claim| total / parts + usize::from(shard_claim < total % parts)).collect()
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
