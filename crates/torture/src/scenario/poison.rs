//! 50 jobs kill whoever runs them, among 1,000 that do not. A supervisor starts the worker again each time.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use tidemill::dead_letter::redrive::{self, DeadLetterFilter};

use crate::act::{Act, Deed};
use crate::ledger::Step;
use crate::stage::{PATIENCE, Stage, queue};

const POISON: usize = 50;
const INNOCENT: usize = 1_000;
const MAX_ATTEMPTS: u32 = 3;

/// Returns how often the worker was started.
pub async fn run(stage: &Stage, seed: u64) -> Result<usize> {
    let acts = mixed(seed);
    let jobs = stage.client.jobs(acts.iter().copied()).max_attempts(MAX_ATTEMPTS).enqueue().await?;
    let starts = supervise(stage).await?;

    let deeds: HashMap<&str, Deed> =
        jobs.iter().map(|job| job.as_str()).zip(acts.iter().map(|act| act.deed)).collect();
    let (poison, innocent): (HashSet<&str>, HashSet<&str>) =
        deeds.keys().partition(|job| deeds.get(*job) == Some(&Deed::Abort));
    let audit = stage.audit()?;
    audit.assert_all_ran(&innocent)?;
    audit.assert_ended_once()?;
    let starts_of = audit.per_job(Step::Started);
    let wrong = poison.iter().filter(|job| starts_of.get(*job) != Some(&(MAX_ATTEMPTS as usize))).count();
    ensure!(wrong == 0, "{wrong} poison jobs did not start exactly {MAX_ATTEMPTS} times");
    let letters = stage.letters().await?;
    let dead: HashSet<&str> = letters.iter().map(|letter| letter.job.as_str()).collect();
    ensure!(dead == poison, "{} letters, not those of the {} poison jobs", dead.len(), poison.len());
    redrive::drop_dead(&**stage.client.store(), &queue()?, &DeadLetterFilter::default()).await?;
    stage.assert_nothing_is_left().await?;
    Ok(starts)
}

fn mixed(seed: u64) -> Vec<Act> {
    let mut acts = vec![Act::POISON; POISON];
    acts.resize(POISON + INNOCENT, Act::INNOCENT);
    fastrand::Rng::with_seed(seed).shuffle(&mut acts);
    acts
}

/// Keeps one worker running, one job at a time, until nothing is left to run.
async fn supervise(stage: &Stage) -> Result<usize> {
    let (begun, mut starts) = (Instant::now(), 0);
    loop {
        starts += 1;
        let mut worker = stage.hire(&stage.duty(1))?;
        while !worker.has_ended() {
            if stage.is_drained().await? {
                worker.dismiss()?;
                return Ok(starts);
            }
            if begun.elapsed() > PATIENCE * 2 {
                bail!("not drained after {starts} starts: {:?}, {}", stage.counts().await?, stage.audit()?);
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
