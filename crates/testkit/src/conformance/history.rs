//! Random histories: whatever verbs come in whatever order, store and model agree after each.

use std::slice::from_ref;
use std::time::Duration;

use fastrand::Rng;
use tidemill_core::job::JobState;
use tidemill_core::name::{Guarantee, JobId};
use tidemill_core::dead_letter::redrive::{DeadLetterFilter, drop_dead, redrive};
use tidemill_core::settle::Outcome;
use tidemill_core::store::{Due, Extended, Verdict};

use super::model::Model;
use super::scene::{LONG, Traits, dead, done, retry};
use super::{Scene, Subject};

const SEEDS: u64 = 8;
const STEPS: usize = 80;

pub async fn random_histories_agree_with_the_model(subject: Subject) {
    play_all(&subject, Guarantee::AtLeastOnce).await;
}

pub async fn random_histories_agree_with_the_model_at_most_once(subject: Subject) {
    play_all(&subject, Guarantee::AtMostOnce).await;
}

async fn play_all(subject: &Subject, delivery: Guarantee) {
    // A sharded store takes several trips where another takes one.
    for seed in 0..if subject.is_sharded() { SEEDS / 2 } else { SEEDS } {
        let scene = subject.scene_on(&format!("history-{seed}"), delivery);
        let mut play = Play { scene, model: Model::default(), rng: Rng::with_seed(seed), log: Log::new(seed) };
        for _ in 0..STEPS {
            play.step(subject.is_sharded()).await;
            play.compare().await;
        }
        play.drain().await;
        play.scene.assert_counts([0, 0, 0, 0]).await;
        play.log.is_over = true;
    }
}

/// Says which history a panic interrupted.
struct Log {
    seed: u64,
    steps: Vec<&'static str>,
    is_over: bool,
}

impl Log {
    fn new(seed: u64) -> Self {
        Self { seed, steps: Vec::new(), is_over: false }
    }
}

impl Drop for Log {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if !self.is_over {
            eprintln!("seed {}: {}", self.seed, self.steps.join(", "));
        }
    }
}

struct Play {
    scene: Scene,
    model: Model,
    rng: Rng,
    log: Log,
}

impl Play {
    async fn step(&mut self, sharded: bool) {
        let step = self.rng.usize(..14);
        self.log.steps.push(
            ["enqueue", "enqueue", "enqueue", "repeat", "claim", "claim", "settle", "settle", "late", "extend",
             "cancel", "letter", "pause", "tend"][step],
        );
        match step {
            0..=2 => self.enqueue().await,
            3 => self.repeat().await,
            4 | 5 => self.claim(sharded).await,
            6 | 7 => self.settle().await,
            8 => self.settle_late().await,
            9 => self.extend().await,
            10 => self.cancel().await,
            11 => self.handle_letter().await,
            12 => self.pause().await,
            _ => self.tend().await,
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
        let traits = Traits {
            due: if later { Due::In(LONG * 100) } else { Due::Now },
            keep: keeps.then_some(LONG * 100),
            max_attempts: self.rng.u32(1..4),
            ..Traits::default()
        };
        let state = if later { JobState::Scheduled } else { JobState::Ready };
        let expected = self.model.enqueue(&job, state, keeps);
        assert_eq!(self.scene.enqueue_again(traits.job_of(job)).await, expected);
    }

    async fn claim(&mut self, sharded: bool) {
        let max = self.rng.usize(1..4);
        let given = self.scene.try_claim(max).await;
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
        let settlement = self.scene.settlement(&claimed, outcome);
        self.model.settle(&claimed.lease.job, settlement.change.event());
        assert_eq!(self.scene.store.settle(&[settlement]).await.unwrap(), [Verdict::Accepted]);
    }

    async fn settle_late(&mut self) {
        let Some(claimed) = self.rng.choice(&self.model.stale) else { return };
        assert_eq!(self.scene.try_settle(claimed, done()).await, Verdict::LeaseLost);
    }

    async fn extend(&mut self) {
        let held: Vec<_> = self.model.held().into_iter().map(|claimed| claimed.lease).collect();
        let stale: Vec<_> = self.model.stale.iter().map(|claimed| claimed.lease.clone()).collect();
        assert!(!self.scene.extend(&held).await.contains(&Extended::Lost));
        assert!(self.scene.extend(&stale).await.iter().all(|held| *held == Extended::Lost));
    }

    async fn cancel(&mut self) {
        let Some(job) = self.any_job() else { return };
        assert_eq!(self.scene.store.cancel(&job).await.unwrap(), self.model.cancel(&job));
    }

    async fn handle_letter(&mut self) {
        let Some(job) = self.any_job() else { return };
        let (store, queue) = (&*self.scene.store, &self.scene.queue);
        if self.rng.bool() {
            let letters = DeadLetterFilter { jobs: vec![job.clone()], ..DeadLetterFilter::default() };
            assert_eq!(redrive(store, queue, &letters).await.unwrap(), self.model.redrive(&job));
        } else {
            assert_eq!(store.drop_dead(queue, from_ref(&job)).await.unwrap(), self.model.drop_letter(&job));
        }
    }

    async fn pause(&mut self) {
        self.model.paused = self.rng.bool();
        let (store, queue) = (&self.scene.store, &self.scene.queue);
        if self.model.paused { store.pause(queue).await } else { store.resume(queue).await }.unwrap();
    }

    /// Maintenance has nothing to do: no lease is over and nothing scheduled is due.
    async fn tend(&mut self) {
        assert_eq!(self.scene.rescue().await, 0);
        assert_eq!(self.scene.promote().await.moved, 0);
        self.scene.store.prune(from_ref(&self.scene.queue)).await.unwrap();
    }

    fn any_job(&mut self) -> Option<JobId> {
        self.rng.choice(&self.model.ids).cloned()
    }

    async fn compare(&mut self) {
        self.scene.assert_counts(self.model.counts()).await;
        assert_eq!(self.scene.counts().await.paused, self.model.paused);
        if let Some(job) = self.any_job() {
            assert_eq!(self.scene.state(&job).await, self.model.state(&job), "{job}");
        }
    }

    /// Compares every job, then brings the queue to its end.
    async fn drain(&mut self) {
        for job in &self.model.ids {
            assert_eq!(self.scene.state(job).await, self.model.state(job), "{job}");
        }
        let (store, queue) = (&*self.scene.store, &self.scene.queue);
        store.resume(queue).await.unwrap();
        assert_eq!(store.purge(queue).await.unwrap(), self.model.purge());
        for claimed in self.model.held() {
            self.scene.settle(&claimed, Outcome::HandedBack).await;
        }
        store.purge(queue).await.unwrap();
        drop_dead(store, queue, &DeadLetterFilter::default()).await.unwrap();
    }
}
