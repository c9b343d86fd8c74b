//! 50 jobs abort their worker, among 1,000 harmless jobs. A supervisor restarts the worker each
//! time.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use tidemill::DeadLetterFilter;

use crate::environment::{Environment, TIMEOUT};
use crate::job::{Behaviour, QUEUE, TestJob};
use crate::ledger::LedgerEvent;

const POISON_JOBS: usize = 50;
const HARMLESS_JOBS: usize = 1_000;
const MAX_ATTEMPTS: u32 = 3;

/// Returns the number of starts of the worker.
pub async fn run(environment: &Environment, seed: u64) -> Result<usize> {
    let test_jobs = mixed(seed);
    let jobs =
        environment.client.jobs(test_jobs.iter().copied()).max_attempts(MAX_ATTEMPTS).enqueue().await?;
    let starts = supervise(environment).await?;

    let behaviours: HashMap<&str, Behaviour> = jobs
        .iter()
        .map(|job| job.as_str())
        .zip(test_jobs.iter().map(|test_job| test_job.behaviour))
        .collect();
    let (poison, harmless): (HashSet<&str>, HashSet<&str>) =
        behaviours.keys().partition(|job| behaviours.get(*job) == Some(&Behaviour::Abort));
    let audit = environment.audit()?;
    audit.assert_all_ran(&harmless)?;
    audit.assert_ended_once()?;
    let starts_of = audit.per_job(LedgerEvent::Started);
    let wrong = poison.iter().filter(|job| starts_of.get(*job) != Some(&(MAX_ATTEMPTS as usize))).count();
    ensure!(wrong == 0, "{wrong} poison jobs did not start exactly {MAX_ATTEMPTS} times");
    let letters = environment.letters().await?;
    let dead: HashSet<&str> = letters.iter().map(|letter| letter.job.as_str()).collect();
    ensure!(dead == poison, "{} dead letters, but {} poison jobs", dead.len(), poison.len());
    environment.client.dead_letters(QUEUE).drop(&DeadLetterFilter::all()).await?;
    environment.assert_empty().await?;
    Ok(starts)
}

fn mixed(seed: u64) -> Vec<TestJob> {
    let mut test_jobs = vec![TestJob::ABORT; POISON_JOBS];
    test_jobs.resize(POISON_JOBS + HARMLESS_JOBS, TestJob::FINISH);
    fastrand::Rng::with_seed(seed).shuffle(&mut test_jobs);
    test_jobs
}

/// Keeps one worker running with a concurrency of one until the queues are drained.
async fn supervise(environment: &Environment) -> Result<usize> {
    let (started, mut starts) = (Instant::now(), 0);
    loop {
        starts += 1;
        let mut worker = environment.start_worker(&environment.worker_spec(1))?;
        while !worker.has_ended() {
            if environment.is_drained().await? {
                worker.shut_down()?;
                return Ok(starts);
            }
            if started.elapsed() > TIMEOUT * 2 {
                bail!(
                    "not drained after {starts} starts: {:?}, {}",
                    environment.counts().await?,
                    environment.audit()?
                );
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
