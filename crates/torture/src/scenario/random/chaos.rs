//! The random events: enqueues, cancels, kills, stops, pauses and outages.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastrand::Rng;
use tidemill::store::Cancelled;
use tidemill::{Error, Guarantee, JobId};

use crate::environment::{Environment, TIMEOUT, queue};
use crate::job::{AT_MOST_ONCE_QUEUE, Behaviour, TestJob};
use crate::ledger;
use crate::worker_process::WorkerProcess;

/// Number of workers.
const WORKERS: usize = 3;

/// Concurrency of each worker.
const CONCURRENCY: usize = 8;

/// Maximum attempts of a job that must succeed: every kill counts as an attempt of all running
/// jobs.
const SURVIVOR_MAX_ATTEMPTS: u32 = 10_000;

/// Maximum attempts of a job that aborts its worker.
const POISON_MAX_ATTEMPTS: u32 = 2;

/// A job whose enqueue was acknowledged.
#[derive(Debug)]
pub(super) struct AcknowledgedJob {
    pub(super) job: JobId,
    pub(super) behaviour: Behaviour,
    pub(super) delivery: Guarantee,
    pub(super) expectation: Expectation,
}

/// What must be true of the job at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    /// It must have run.
    MustRun,
    /// It was cancelled, and may or may not have run.
    MayRun,
    /// It was removed at this time, and must not have started since.
    Removed(u64),
}

/// A worker, and until when it is stopped.
struct WorkerSlot {
    worker: WorkerProcess,
    stopped_until: Option<Instant>,
}

/// The source of random events.
pub(super) struct Chaos<'a> {
    environment: &'a Environment,
    random: Rng,
    slots: Vec<WorkerSlot>,
    acknowledged: Vec<AcknowledgedJob>,
}

impl<'a> Chaos<'a> {
    pub(super) fn new(environment: &'a Environment, seed: u64) -> Result<Self> {
        let mut chaos =
            Self { environment, random: Rng::with_seed(seed), slots: Vec::new(), acknowledged: Vec::new() };
        for _ in 0..WORKERS {
            chaos.slots.push(chaos.start_worker()?);
        }
        Ok(chaos)
    }

    fn start_worker(&self) -> Result<WorkerSlot> {
        // The store may be restarting; a worker that cannot connect exits.
        let started = Instant::now();
        loop {
            match self.environment.start_worker(&self.environment.worker_spec(CONCURRENCY)) {
                Ok(worker) => return Ok(WorkerSlot { worker, stopped_until: None }),
                Err(error) if started.elapsed() > TIMEOUT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// One random event, and the maintenance of the workers after it.
    pub(super) async fn inject_one(&mut self) -> Result<()> {
        match self.random.u32(0..100) {
            0..45 => self.enqueue_one().await?,
            45..60 => self.enqueue_many().await?,
            60..70 => self.enqueue_at_most_once().await?,
            70..82 => self.cancel().await?,
            82..88 => self.kill()?,
            88..92 => self.stop()?,
            92..96 => self.pause().await?,
            96..99 => self.pause_store().await?,
            _ => self.environment.store().restart()?,
        }
        self.maintain_workers()?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(2..40))).await;
        Ok(())
    }

    fn random_job(&mut self) -> TestJob {
        let behaviour = match self.random.u32(0..100) {
            0..75 => Behaviour::Finish,
            75..92 => Behaviour::Fail(self.random.u32(1..4)),
            92..98 => Behaviour::Die,
            _ => Behaviour::Abort,
        };
        TestJob { behaviour, sleep_ms: self.random.u64(0..100) }
    }

    async fn enqueue_one(&mut self) -> Result<()> {
        let test_job = self.random_job();
        let delay = Duration::from_millis(self.random.u64(0..1500).saturating_sub(1000));
        let job =
            self.environment.client.job(test_job).max_attempts(attempts(test_job.behaviour)).delay(delay);
        let acknowledged = job.enqueue().await.map(|handle| vec![handle.id().clone()]);
        self.record(acknowledged, test_job.behaviour, Guarantee::AtLeastOnce)
    }

    async fn enqueue_many(&mut self) -> Result<()> {
        let (test_job, count) = (self.random_job(), self.random.usize(1..60));
        let count = if test_job.behaviour == Behaviour::Abort { 1 } else { count };
        let jobs = self
            .environment
            .client
            .jobs((0..count).map(|_| test_job))
            .max_attempts(attempts(test_job.behaviour));
        let acknowledged = jobs.enqueue().await.map_err(Error::from);
        self.record(acknowledged, test_job.behaviour, Guarantee::AtLeastOnce)
    }

    async fn enqueue_at_most_once(&mut self) -> Result<()> {
        let test_job = TestJob { behaviour: Behaviour::Finish, sleep_ms: self.random.u64(0..50) };
        let jobs = self.environment.client.jobs((0..self.random.usize(1..20)).map(|_| test_job));
        let acknowledged = jobs
            .queue(AT_MOST_ONCE_QUEUE)
            .guarantee(Guarantee::AtMostOnce)
            .enqueue()
            .await
            .map_err(Error::from);
        self.record(acknowledged, test_job.behaviour, Guarantee::AtMostOnce)
    }

    fn record(
        &mut self,
        acknowledged: Result<Vec<JobId>, Error>,
        behaviour: Behaviour,
        delivery: Guarantee,
    ) -> Result<()> {
        let acknowledged = acknowledged.or_else(ignore_transient)?.into_iter();
        self.acknowledged.extend(acknowledged.map(|job| AcknowledgedJob {
            job,
            behaviour,
            delivery,
            expectation: Expectation::MustRun,
        }));
        Ok(())
    }

    async fn cancel(&mut self) -> Result<()> {
        if self.acknowledged.is_empty() {
            return Ok(());
        }
        let acknowledged = self.random.usize(..self.acknowledged.len());
        let acknowledged = &mut self.acknowledged[acknowledged];
        // From here on, the job may have run or not, whatever the answer.
        acknowledged.expectation = Expectation::MayRun;
        match self.environment.client.store().cancel(&acknowledged.job).await {
            Ok(Cancelled::Removed) => acknowledged.expectation = Expectation::Removed(ledger::now()),
            Ok(_) => {}
            Err(error) => ignore_transient(error)?,
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        let slot = self.random.usize(..self.slots.len());
        self.slots.swap_remove(slot).worker.kill()
    }

    fn stop(&mut self) -> Result<()> {
        let slot = self.random.usize(..self.slots.len());
        let time = self.environment.lease.mul_f64(self.random.f64() * 2.5);
        let slot = &mut self.slots[slot];
        if slot.stopped_until.is_none() && !slot.worker.has_ended() {
            slot.worker.pause()?;
            slot.stopped_until = Some(Instant::now() + time);
        }
        Ok(())
    }

    async fn pause(&mut self) -> Result<()> {
        let (store, queue) = (self.environment.client.store(), queue()?);
        store.pause(&queue).await.or_else(ignore_transient)?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(0..300))).await;
        self.resume().await
    }

    /// Resumes the queue: a paused queue would never drain.
    async fn resume(&self) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = self.environment.client.store().resume(&queue()?).await {
            if started.elapsed() > TIMEOUT {
                bail!("the queue cannot be resumed: {}", error.full_message());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn pause_store(&mut self) -> Result<()> {
        let _outage = self.environment.store().pause()?;
        tokio::time::sleep(Duration::from_millis(self.random.u64(100..1500))).await;
        Ok(())
    }

    /// Continues stopped workers whose time is over, and replaces workers that have ended.
    fn maintain_workers(&mut self) -> Result<()> {
        for slot in &mut self.slots {
            if slot.stopped_until.is_some_and(|until| until <= Instant::now()) {
                slot.worker.resume()?;
                slot.stopped_until = None;
            }
        }
        self.slots.retain_mut(|slot| !slot.worker.has_ended());
        while self.slots.len() < WORKERS {
            self.slots.push(self.start_worker()?);
        }
        Ok(())
    }

    /// Continues all workers, waits until no job is left to run, and stops every worker.
    pub(super) async fn drain(mut self) -> Result<Vec<AcknowledgedJob>> {
        self.resume().await?;
        for slot in &mut self.slots {
            slot.stopped_until = slot.stopped_until.map(|_| Instant::now());
        }
        let started = Instant::now();
        let mut drained_checks = 0;
        while drained_checks < 2 {
            self.maintain_workers()?;
            drained_checks = if self.environment.is_drained().await? { drained_checks + 1 } else { 0 };
            if started.elapsed() > TIMEOUT {
                bail!("not drained: {:?}, {}", self.environment.counts().await?, self.environment.audit()?);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for slot in self.slots {
            slot.worker.shut_down()?;
        }
        Ok(self.acknowledged)
    }
}

fn attempts(behaviour: Behaviour) -> u32 {
    if behaviour == Behaviour::Abort { POISON_MAX_ATTEMPTS } else { SURVIVOR_MAX_ATTEMPTS }
}

/// Ignores an error that an outage explains; the effect of the call is unknown.
fn ignore_transient<T: Default>(error: Error) -> Result<T> {
    if error.is_transient() {
        return Ok(T::default());
    }
    bail!("the store failed: {}", error.full_message())
}
