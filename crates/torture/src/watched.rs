//! A store on whose verbs a worker may meet its [fate](crate::fate): everything is passed on as it is.

use std::sync::Arc;

use async_trait::async_trait;
use tidemill::name::{JobId, Queue, WorkerId};
use tidemill::settle::{Change, Settlement};
use tidemill::store::runs::{
    Delivered, Delivery, ListRuns, NewRun, PruneRuns, ReadJournal, RunInfo, Started, Terminate, Written,
};
use tidemill::store::{
    Cancelled, Checkup, Claim, Claimed, ClockSetBack, Complete, Completed, Deleted, Durability, Enqueue,
    Enqueued, Expired, ExpiredLeases, Extend, Fleet, Held, JobInfo, List, Page, Promote, Promoted, Pruned,
    QueueInfo, Recover, Redrive, Start, Verdict, Wakes,
};
use tidemill::{Clock, Error, RunId, Store};

use crate::fate::{Doom, Point};

/// The real store, and who is on the way to what.
#[derive(Debug)]
pub struct Watched {
    /// The real store.
    pub inner: Arc<dyn Store>,
    /// What may befall the worker.
    pub doom: Arc<Doom>,
}

impl Watched {
    fn reach(&self, settlements: &[Settlement], commit: Point, delivery: Point) {
        for settlement in settlements {
            match settlement.change {
                Change::Commit(_) => self.doom.reach(commit),
                Change::Deliver(_) => self.doom.reach(delivery),
                Change::Finish(_) | Change::Continue(_) | Change::Requeue { .. } | Change::Bury(_) => {}
            }
        }
    }
}

#[async_trait]
impl Store for Watched {
    async fn claim(&self, claim: Claim<'_>) -> Result<Vec<Claimed>, Error> {
        let claimed = self.inner.claim(claim).await?;
        claimed.iter().for_each(|_| self.doom.reach(Point::Claimed));
        Ok(claimed)
    }

    async fn recover(&self, recover: Recover<'_>) -> Result<Vec<Claimed>, Error> {
        self.inner.recover(recover).await
    }

    fn has_doubt(&self, queue: &Queue, worker: &WorkerId) -> bool {
        self.inner.has_doubt(queue, worker)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.reach(settlements, Point::Commits, Point::Delivers);
        let verdicts = self.inner.settle(settlements).await?;
        self.reach(settlements, Point::Committed, Point::Delivered);
        Ok(verdicts)
    }

    async fn start(&self, start: Start<'_>) -> Result<Vec<Verdict>, Error> {
        self.inner.start(start).await
    }

    async fn extend(&self, extend: Extend<'_>) -> Result<Vec<Held>, Error> {
        self.inner.extend(extend).await
    }

    async fn promote(&self, promote: Promote<'_>) -> Result<Promoted, Error> {
        self.inner.promote(promote).await
    }

    async fn expired(&self, expired: Expired<'_>) -> Result<ExpiredLeases, Error> {
        self.inner.expired(expired).await
    }

    async fn clock_went_back(&self, step: ClockSetBack) -> Result<(), Error> {
        self.inner.clock_went_back(step).await
    }

    async fn leave(&self, worker: &WorkerId, queues: &[Queue]) -> Result<(), Error> {
        self.inner.leave(worker, queues).await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.inner.queues().await
    }

    async fn enqueue(&self, enqueue: Enqueue<'_>) -> Result<Vec<Enqueued>, Error> {
        self.inner.enqueue(enqueue).await
    }

    async fn rescue(&self, settlements: &[Settlement]) -> Result<Vec<Verdict>, Error> {
        self.inner.rescue(settlements).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.inner.cancel(job).await
    }

    async fn redrive(&self, redrive: Redrive<'_>) -> Result<u64, Error> {
        self.inner.redrive(redrive).await
    }

    async fn drop_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.inner.drop_letters(queue, jobs).await
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

    async fn make_known(&self, queues: &[Queue]) -> Result<(), Error> {
        self.inner.make_known(queues).await
    }

    async fn complete(&self, complete: Complete<'_>) -> Result<Completed, Error> {
        self.inner.complete(complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.inner.delete(chain).await
    }

    async fn start_run(&self, run: &NewRun) -> Result<Started, Error> {
        self.inner.start_run(run).await
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error> {
        self.inner.deliver(deliveries).await
    }

    async fn terminate(&self, terminate: Terminate<'_>) -> Result<Verdict, Error> {
        self.inner.terminate(terminate).await
    }

    async fn journal(&self, read: ReadJournal<'_>) -> Result<Vec<(u64, Written)>, Error> {
        self.inner.journal(read).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        self.inner.run(run).await
    }

    async fn runs(&self, list: ListRuns) -> Result<Page<RunInfo>, Error> {
        self.inner.runs(list).await
    }

    async fn prune_runs(&self, prune: PruneRuns) -> Result<u64, Error> {
        self.inner.prune_runs(prune).await
    }

    fn near(&self, one: &RunId, other: &RunId) -> bool {
        self.inner.near(one, other)
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobInfo>, Error> {
        self.inner.get(job).await
    }

    async fn list(&self, list: List<'_>) -> Result<Page<JobInfo>, Error> {
        self.inner.list(list).await
    }

    async fn checkup(&self) -> Result<Checkup, Error> {
        self.inner.checkup().await
    }

    fn listen(&self) -> Wakes {
        self.inner.listen()
    }

    async fn flush(&self) {
        self.inner.flush().await;
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
