//! A worker is stopped with SIGSTOP for three leases while it holds 100 jobs, and then goes on: by then the jobs
//! are another's, and what it has to say about them is refused.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tidemill::EventKind;

use crate::act::Act;
use crate::ledger::Step;
use crate::stage::Stage;

const JOBS: usize = 100;

/// Returns how many settlements were refused.
pub async fn run(stage: &Stage) -> Result<u64> {
    let jobs = stage.client.jobs((0..JOBS).map(|_| Act::INNOCENT)).enqueue().await?;
    let sleeper = stage.hire(&stage.gated_duty(JOBS))?;
    stage.until("the sleeper to hold everything", |audit| audit.count(Step::Started) == JOBS).await?;
    let successor = stage.hire(&stage.duty(JOBS))?;
    sleeper.halt()?;
    let halted = Instant::now();

    let done = Step::Settled(EventKind::Done);
    stage.until("the successor to finish", |audit| audit.count(done) >= JOBS).await?;
    tokio::time::sleep((stage.lease * 3).saturating_sub(halted.elapsed())).await;
    // Its handlers end the moment it goes on, before it can know that time has passed.
    stage.open_gate()?;
    sleeper.go_on()?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let pid = sleeper.pid();
    let (late, right) = (sleeper.dismiss()?, successor.dismiss()?);

    ensure!(late.done == 0 && late.lost == JOBS as u64, "the sleeper has {late:?}");
    ensure!(right.done == JOBS as u64 && right.lost == 0, "the successor has {right:?}");
    let audit = stage.audit()?;
    ensure!(audit.count_by(pid, done) == 0, "a late settlement was accepted");
    audit.assert_ended_once()?;
    audit.assert_all_ran(jobs.iter().map(|job| job.as_str()))?;
    stage.assert_nothing_is_left().await?;
    Ok(late.lost)
}
