//! A store decorator with [kill points](crate::kill_points) around claims and settlements.

use std::sync::Arc;

use async_trait::async_trait;
use tidemill::name::{HolderId, JobId, Queue};
use tidemill::settle::{Change, Settlement};
use tidemill::store::Store;
use tidemill::store::runs::{
    Delivered, Delivery, ListRunsParams, PruneRunsParams, ReadJournalParams, RunInfo, StartRunParams,
    StartRunResult, StoredEntry, TerminateParams,
};
use tidemill::store::{
    Bus, Cancelled, Checkup, ClaimParams, Claimed, ClockStep, CompleteParams, Completed, Deleted, Durability,
    EnqueueParams, Enqueued, ExpiredLeases, ExtendParams, Extended, Fleet, JobInfo, ListExpiredParams,
    ListJobsParams, Page, PromoteParams, Promoted, Pruned, QueueInfo, RecoverParams, RedriveParams,
    StartParams, Verdict,
};
use tidemill::{Clock, Error, RunId};

use crate::kill_points::{KillPoint, KillSwitch};

/// The decorated store.
#[derive(Debug)]
pub struct KillPointStore {
    /// The real store.
    pub inner: Arc<dyn Store>,
    /// The planned signal of the worker.
    pub kill_switch: Arc<KillSwitch>,
}

impl KillPointStore {
    fn reach(&self, settlements: &[Settlement], commit: KillPoint, delivery: KillPoint) {
        for settlement in settlements {
            match settlement.change {
                Change::Commit(_) => self.kill_switch.reach(commit),
                Change::Deliver(_) => self.kill_switch.reach(delivery),
                Change::Finish(_) | Change::Continue(_) | Change::Requeue { .. } | Change::Bury(_) => {}
            }
        }
    }
}

#[async_trait]
impl Store for KillPointStore {
    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let claimed = self.inner.claim(claim).await?;
        claimed.iter().for_each(|_| self.kill_switch.reach(KillPoint::Claimed));
        Ok(claimed)
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.recover(recover).await
    }

    fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool {
        self.inner.needs_recover(queue, worker)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.reach(settlements, KillPoint::Commits, KillPoint::Delivers);
        let verdicts = self.inner.settle(settlements).await?;
        self.reach(settlements, KillPoint::Committed, KillPoint::Delivered);
        Ok(verdicts)
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.inner.start(start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        self.inner.extend(extend).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.inner.promote(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.inner.list_expired(expired).await
    }

    async fn adjust_for_clock_step(&self, step: ClockStep) -> Result<(), Error> {
        self.inner.adjust_for_clock_step(step).await
    }

    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        self.inner.leave(worker, queues).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.inner.list_queues().await
    }

    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        self.inner.enqueue(enqueue).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.inner.rescue(settlements).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.inner.cancel(job).await
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.inner.redrive(redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.inner.drop_dead(queue, jobs).await
    }

    async fn pause(&self, queue: &Queue) -> Result<(), Error> {
        self.inner.pause(queue).await
    }

    async fn resume(&self, queue: &Queue) -> Result<(), Error> {
        self.inner.resume(queue).await
    }

    async fn purge(&self, queue: &Queue) -> Result<u64, Error> {
        self.inner.purge(queue).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        self.inner.prune(queues).await
    }

    async fn register(&self, queues: &[Queue]) -> Result<(), Error> {
        self.inner.register(queues).await
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.inner.complete(complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.inner.delete(chain).await
    }

    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        self.inner.start_run(run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.inner.deliver(deliveries).await
    }

    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        self.inner.terminate(terminate).await
    }

    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error> {
        self.inner.read_journal(read).await
    }

    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.inner.get_run(run).await
    }

    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.inner.list_runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        self.inner.prune_runs(prune).await
    }

    fn same_shard(&self, one: &RunId, other: &RunId) -> bool {
        self.inner.same_shard(one, other)
    }

    async fn get_job(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.inner.get_job(job).await
    }

    async fn list_jobs(&self, list: ListJobsParams<'_>) -> Result<Page<JobInfo>, Error> {
        self.inner.list_jobs(list).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.inner.checkup().await
    }

    fn bus(&self) -> &Arc<Bus> {
        self.inner.bus()
    }

    fn fleet(&self) -> &dyn Fleet {
        self.inner.fleet()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self.inner.as_any()
    }

    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn commands(&self) -> u64 {
        self.inner.commands()
    }
}
