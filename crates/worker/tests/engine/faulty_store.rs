//! A store that fails as planned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tidemill_core::name::{HolderId, Queue};
use tidemill_core::settle::Settlement;
use tidemill_core::store::{
    ClaimParams, Claimed, Decorator, EnqueueParams, Enqueued, ExpiredLeases, ExtendParams, Extended, Fence,
    ListExpiredParams, PromoteParams, Promoted, Pruned, QueueInfo, RecoverParams, SettleParams, StartParams,
    Verdict,
};
use tidemill_core::wake::Bus;
use tidemill_core::{Error, Lease, Store};

use crate::fault_plan::{FaultPlan, Verb, unavailable};

/// A real store with planned faults.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) plan: FaultPlan,
    /// How many records have been pruned.
    pub(crate) pruned: AtomicU64,
    /// Whether every wake-up is lost.
    pub(crate) muted: AtomicBool,
    /// The bus of a muted store, on which nothing is published.
    pub(crate) silent_bus: Arc<Bus>,
    pub(crate) shard: LostShard,
    /// Whether running jobs are not counted, as at-most-once jobs without an index entry.
    pub(crate) uncounted: AtomicBool,
}

/// A shard whose answer to a claim is lost, while the others answer.
#[derive(Debug, Default)]
pub(crate) struct LostShard {
    /// Whether the next claim loses all jobs but its first.
    pub(crate) is_lost: AtomicBool,
    /// Whether a claim has lost jobs.
    is_doubted: AtomicBool,
}

#[async_trait]
impl Decorator for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let mut claimed = self.plan.perform((Verb::Claim, claim.max), self.inner.claim(claim)).await?;
        if claimed.len() > 1 && self.shard.is_lost.swap(false, Ordering::SeqCst) {
            claimed.truncate(1);
            self.shard.is_doubted.store(true, Ordering::SeqCst);
        }
        Ok(claimed)
    }

    fn needs_recover(&self, _: &Queue, _: &HolderId) -> bool {
        self.shard.is_doubted.swap(false, Ordering::SeqCst)
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.plan.perform((Verb::Recover, recover.known_leases.len()), self.inner.recover(recover)).await
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        let StartParams { worker, leases } = start;
        // A locked job is reported as lost, as a store may do.
        let free: Vec<_> = leases.iter().filter(|lease| !self.plan.is_locked(&lease.job)).cloned().collect();
        let start = self.inner.start(StartParams { worker, leases: &free });
        let mut verdicts = self.plan.perform((Verb::Start, leases.len()), start).await?.into_iter();
        let verdict = |lease: &Lease| free.contains(lease).then(|| verdicts.next()).flatten();
        Ok(leases.iter().map(verdict).map(|verdict| verdict.unwrap_or(Verdict::LeaseLost)).collect())
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        let ExtendParams { worker, leases, lease } = extend;
        let answer = |lease: &Lease| !self.plan.is_in_silent_shard(&lease.job);
        let reached: Vec<_> = leases.iter().filter(|lease| answer(lease)).cloned().collect();
        if reached.is_empty() && !leases.is_empty() {
            return self.plan.perform((Verb::Extend, leases.len()), async { Err(unavailable()) }).await;
        }
        let extend = self.inner.extend(ExtendParams { worker, leases: &reached, lease });
        let mut held = self.plan.perform((Verb::Extend, leases.len()), extend).await?.into_iter();
        let held = |lease: &Lease| reached.contains(lease).then(|| held.next()).flatten();
        Ok(leases.iter().map(held).map(|held| held.unwrap_or(Extended::Unknown)).collect())
    }

    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        let SettleParams { settlements, fence } = settle;
        if fence == Fence::Expired {
            return self.inner.settle(settle).await;
        }
        let settle = async {
            self.plan.wait_for_locks(settlements).await?;
            let answer = |settlement: &&Settlement| !self.plan.is_in_silent_shard(&settlement.lease.job);
            let reached: Vec<_> = settlements.iter().filter(answer).cloned().collect();
            if reached.is_empty() && !settlements.is_empty() {
                return Err(unavailable());
            }
            let mut verdicts = self.inner.settle(SettleParams::current(&reached)).await?.into_iter();
            let verdict = |settlement| answer(&settlement).then(|| verdicts.next()).flatten();
            Ok(settlements.iter().map(verdict).map(|verdict| verdict.unwrap_or(Verdict::Unknown)).collect())
        };
        self.plan.perform((Verb::Settle, settlements.len()), settle).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.plan.perform((Verb::Promote, promote.queues.len()), self.inner.promote(promote)).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.plan.perform((Verb::Expired, expired.limit), self.inner.list_expired(expired)).await
    }

    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        self.plan.perform((Verb::Leave, queues.len()), self.inner.leave(worker, queues)).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        let mut infos = self.plan.perform((Verb::Queues, 0), self.inner.list_queues()).await?;
        if self.uncounted.load(Ordering::SeqCst) {
            infos.iter_mut().for_each(|info| info.running = 0);
        }
        Ok(infos)
    }

    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        let jobs = enqueue.jobs.len();
        self.plan.perform((Verb::Enqueue, jobs), self.inner.enqueue(enqueue)).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        let pruned = self.inner.prune(queues).await?;
        self.pruned.fetch_add(pruned.records, Ordering::SeqCst);
        Ok(pruned)
    }

    fn bus(&self) -> &Arc<Bus> {
        if self.muted.load(Ordering::SeqCst) { &self.silent_bus } else { self.inner.bus() }
    }
}
