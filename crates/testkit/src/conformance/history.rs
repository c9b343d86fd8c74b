//! Random histories: store and model agree after each call of a random sequence.

use std::slice::from_ref;
use std::time::Duration;

use fastrand::Rng;
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, JobId};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{SettleParams, Due, Extended, Verdict};

use super::model::Model;
use super::harness::{LONG, JobSpec, dead, done, retry};
use super::{QueueHarness, StoreUnderTest};

const SEEDS: u64 = 8;
const STEPS: usize = 80;

pub async fn random_histories_agree_with_the_model(subject: StoreUnderTest) {
    run_all(&subject, Guarantee::AtLeastOnce).await;
}

pub async fn random_histories_agree_with_the_model_at_most_once(subject: StoreUnderTest) {
    run_all(&subject, Guarantee::AtMostOnce).await;
}

async fn run_all(subject: &StoreUnderTest, guarantee: Guarantee) {
    // A call takes longer on a sharded store.
    for seed in 0..if subject.is_sharded() { SEEDS / 2 } else { SEEDS } {
        let harness = subject.harness_on(&format!("history-{seed}"), guarantee);
        let mut run = HistoryRun { harness, model: Model::default(), rng: Rng::with_seed(seed), log: HistoryLog::new(seed) };
        for _ in 0..STEPS {
            run.step(subject.is_sharded()).await;
            run.compare().await;
        }
        run.drain().await;
        run.harness.assert_counts([0, 0, 0, 0]).await;
        run.log.is_complete = true;
    }
}

/// Prints the history that a panic interrupted.
struct HistoryLog {
    seed: u64,
    steps: Vec<&'static str>,
    is_complete: bool,
}

impl HistoryLog {
    fn new(seed: u64) -> Self {
        Self { seed, steps: Vec::new(), is_complete: false }
    }
}

impl Drop for HistoryLog {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if !self.is_complete {
            eprintln!("seed {}: {}", self.seed, self.steps.join(", "));
        }
    }
}

struct HistoryRun {
    harness: QueueHarness,
    model: Model,
    rng: Rng,
    log: HistoryLog,
}

impl HistoryRun {
    async fn step(&mut self, sharded: bool) {
        let step = self.rng.usize(..14);
        self.log.steps.push(
            ["enqueue", "enqueue", "enqueue", "repeat", "claim", "claim", "settle", "settle", "late", "extend",
             "cancel", "dead letter", "pause", "maintain"][step],
        );
        match step {
            0..=2 => self.enqueue().await,
            3 => self.repeat().await,
            4 | 5 => self.claim(sharded).await,
            6 | 7 => self.settle().await,
            8 => self.settle_late().await,
            9 => self.extend().await,
            10 => self.cancel().await,
            11 => self.redrive_or_drop().await,
            12 => self.pause().await,
            _ => self.maintain().await,
        }
    }

    async fn enqueue(&mut self) {
        self.add(JobId::generate()).await;
    }

    async fn repeat(&mut self) {
        if let Some(job) = self.any_job() {
            self.add(job).await;
        }
    }

    async fn add(&mut self, job: JobId) {
        let (later, keeps) = (self.rng.u8(..4) == 0, self.rng.u8(..4) == 0);
        let traits = JobSpec {
            due: if later { Due::In(LONG * 100) } else { Due::Now },
            keep: keeps.then_some(LONG * 100),
            max_attempts: self.rng.u32(1..4),
            ..JobSpec::default()
        };
        let state = if later { JobState::Scheduled } else { JobState::Ready };
        let expected = self.model.enqueue(&job, state, keeps);
        assert_eq!(self.harness.enqueue_again(traits.job_with_id(job)).await, expected);
    }

    async fn claim(&mut self, sharded: bool) {
        let max = self.rng.usize(1..4);
        let given = self.harness.try_claim(max).await;
        let expected = if self.model.paused { 0 } else { max.min(self.model.count(JobState::Ready)) };
        let is_enough = if sharded { given.len() >= expected } else { given.len() == expected };
        assert!(is_enough, "{} jobs were given out, not {expected}", given.len());
        given.into_iter().for_each(|claimed| self.model.claim(claimed));
    }

    async fn settle(&mut self) {
        let Some(claimed) = self.rng.choice(self.model.held()) else { return };
        let outcomes = [
            done(),
            retry(Duration::ZERO),
            retry(LONG * 100),
            Outcome::Snooze(LONG * 100),
            Outcome::Discard("not wanted".to_owned()),
            Outcome::Cancelled,
            Outcome::HandedBack,
            dead("bad"),
        ];
        let Some(outcome) = self.rng.choice(outcomes) else { return };
        let settlement = self.harness.settlement(&claimed, outcome);
        self.model.settle(&claimed.lease.job, settlement.change.event());
        assert_eq!(self.harness.store.settle(SettleParams::current(&[settlement])).await.unwrap(), [Verdict::Accepted]);
    }

    async fn settle_late(&mut self) {
        let Some(claimed) = self.rng.choice(&self.model.stale) else { return };
        assert_eq!(self.harness.try_settle(claimed, done()).await, Verdict::LeaseLost);
    }

    async fn extend(&mut self) {
        let held: Vec<_> = self.model.held().into_iter().map(|claimed| claimed.lease).collect();
        let stale: Vec<_> = self.model.stale.iter().map(|claimed| claimed.lease.clone()).collect();
        assert!(!self.harness.extend(&held).await.contains(&Extended::Lost));
        assert!(self.harness.extend(&stale).await.iter().all(|held| *held == Extended::Lost));
    }

    async fn cancel(&mut self) {
        let Some(job) = self.any_job() else { return };
        assert_eq!(self.harness.store.cancel(&job).await.unwrap(), self.model.cancel(&job));
    }

    async fn redrive_or_drop(&mut self) {
        let Some(job) = self.any_job() else { return };
        let (store, queue) = (&*self.harness.store, &self.harness.queue);
        if self.rng.bool() {
            let letters = DeadLetterFilter { jobs: vec![job.clone()], ..DeadLetterFilter::default() };
            assert_eq!(redrive(store, queue, &letters).await.unwrap(), self.model.redrive(&job));
        } else {
            assert_eq!(store.drop_dead(queue, from_ref(&job)).await.unwrap(), self.model.drop_dead(&job));
        }
    }

    async fn pause(&mut self) {
        self.model.paused = self.rng.bool();
        let (store, queue) = (&self.harness.store, &self.harness.queue);
        if self.model.paused { store.pause(queue).await } else { store.resume(queue).await }.unwrap();
    }

    /// Maintenance changes nothing: no lease has expired and no scheduled job is due.
    async fn maintain(&mut self) {
        assert_eq!(self.harness.rescue().await, 0);
        assert_eq!(self.harness.promote().await.moved, 0);
        self.harness.store.prune(from_ref(&self.harness.queue)).await.unwrap();
    }

    fn any_job(&mut self) -> Option<JobId> {
        self.rng.choice(&self.model.ids).cloned()
    }

    async fn compare(&mut self) {
        self.harness.assert_counts(self.model.counts()).await;
        assert_eq!(self.harness.counts().await.paused, self.model.paused);
        if let Some(job) = self.any_job() {
            assert_eq!(self.harness.state(&job).await, self.model.state(&job), "{job}");
        }
    }

    /// Compares every job, then empties the queue.
    async fn drain(&mut self) {
        for job in &self.model.ids {
            assert_eq!(self.harness.state(job).await, self.model.state(job), "{job}");
        }
        let (store, queue) = (&*self.harness.store, &self.harness.queue);
        store.resume(queue).await.unwrap();
        assert_eq!(store.purge(queue).await.unwrap(), self.model.purge());
        for claimed in self.model.held() {
            self.harness.settle(&claimed, Outcome::HandedBack).await;
        }
        store.purge(queue).await.unwrap();
        drop_dead(store, queue, &DeadLetterFilter::default()).await.unwrap();
    }
}
