//! The calls of clients and workers: enqueue, claim, extend, settle.

use std::time::{Duration, Instant};

use tidemill_core::backoff::Backoff;
use tidemill_core::lease::Lease;
use tidemill_core::name::JobId;
use tidemill_core::settle::{DecideContext, Outcome, Settlement, decide};
use tidemill_core::store::{
    ClaimParams, Claimed, EnqueueParams, Enqueued, Error, ExtendParams, Extended, NewJob, SettleParams,
    StartParams, Verdict,
};

use super::{JobSpec, POLL_INTERVAL, QueueHarness, WAIT_TIMEOUT, dead, envelope, job};

impl QueueHarness {
    /// Adds a job that must be new.
    pub async fn enqueue(&self, job: NewJob) -> JobId {
        let id = job.id.clone();
        assert_eq!(self.enqueue_again(job).await, Enqueued::Created);
        id
    }

    /// Adds a job that may exist already.
    pub async fn enqueue_again(&self, job: NewJob) -> Enqueued {
        self.enqueue_batch(vec![job]).await.unwrap().remove(0)
    }

    /// Adds jobs in one batch.
    pub async fn enqueue_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        self.store.enqueue(EnqueueParams { queue: &self.queue, jobs: &jobs }).await
    }

    /// Adds `count` jobs in one batch.
    pub async fn enqueue_many(&self, count: usize) -> Vec<JobId> {
        let jobs: Vec<_> = (0..count).map(|_| job()).collect();
        let ids = jobs.iter().map(|job| job.id.clone()).collect();
        assert_eq!(self.enqueue_batch(jobs).await.unwrap(), vec![Enqueued::Created; count]);
        ids
    }

    /// One claim of up to `max` jobs, of which `starting` start at once, that waits up to `wait`.
    pub async fn claim_with(&self, max: usize, starting: usize, wait: Duration) -> Vec<Claimed> {
        let claim =
            ClaimParams { starting, wait, ..ClaimParams::now(&self.queue, &self.worker, self.lease, max) };
        let claimed = self.store.claim(claim).await.unwrap();
        let started = claimed.iter().filter(|job| job.started).count();
        assert_eq!(started, starting.min(claimed.len()), "jobs that count as started");
        claimed
    }

    /// One claim of up to `max` jobs, without waiting.
    pub async fn try_claim(&self, max: usize) -> Vec<Claimed> {
        self.claim_with(max, max, Duration::ZERO).await
    }

    /// Claims until there are `count` jobs, all started.
    pub async fn claim(&self, count: usize) -> Vec<Claimed> {
        let (mut claimed, begun) = (Vec::new(), Instant::now());
        while claimed.len() < count {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "{} of {count} jobs were given out", claimed.len());
            let missing = count - claimed.len();
            claimed.extend(self.claim_with(missing, missing, POLL_INTERVAL).await);
        }
        self.keep_started(claimed, count).await
    }

    /// Starts held jobs, and hands back those beyond `count` that a sharded store returned.
    pub(super) async fn keep_started(&self, mut claimed: Vec<Claimed>, count: usize) -> Vec<Claimed> {
        for extra in claimed.split_off(count) {
            self.settle(&extra, Outcome::HandedBack).await;
        }
        let held: Vec<_> = claimed.iter().filter(|job| !job.started).map(|job| job.lease.clone()).collect();
        assert_eq!(self.start(&held).await, vec![Verdict::Accepted; held.len()]);
        claimed
    }

    /// Marks held jobs as started.
    pub async fn start(&self, leases: &[Lease]) -> Vec<Verdict> {
        self.store.start(StartParams { worker: &self.worker, leases }).await.unwrap()
    }

    /// Claims the only job.
    pub async fn claim_one(&self) -> Claimed {
        self.claim(1).await.remove(0)
    }

    /// Asserts that a claim returns nothing.
    pub async fn claim_nothing(&self) {
        let given = self.try_claim(10).await;
        assert!(given.is_empty(), "nothing was to be given out: {given:?}");
    }

    /// Extends leases by the length of this harness's lease.
    pub async fn extend(&self, leases: &[Lease]) -> Vec<Extended> {
        self.store.extend(ExtendParams { worker: &self.worker, leases, lease: self.lease }).await.unwrap()
    }

    /// The settlement of a claimed job with this outcome.
    pub fn settlement(&self, claimed: &Claimed, outcome: Outcome) -> Settlement {
        let backoff = Backoff::constant(Duration::ZERO);
        let circumstances = DecideContext { now: self.store.clock().now(), backoff, random: 0.0 };
        Settlement { lease: claimed.lease.clone(), change: decide(envelope(claimed), outcome, circumstances) }
    }

    /// Settles a claim and returns the verdict.
    pub async fn try_settle(&self, claimed: &Claimed, outcome: Outcome) -> Verdict {
        self.store.settle(SettleParams::current(&[self.settlement(claimed, outcome)])).await.unwrap()[0]
    }

    /// Settles a claim that is still held.
    pub async fn settle(&self, claimed: &Claimed, outcome: Outcome) {
        assert_eq!(self.try_settle(claimed, outcome).await, Verdict::Accepted);
    }

    /// Adds a job with these properties, claims it and moves it to the dead letters.
    pub async fn bury(&self, traits: &JobSpec, reason: &str) -> JobId {
        let id = self.enqueue(traits.job()).await;
        self.settle(&self.claim_one().await, dead(reason)).await;
        id
    }
}
