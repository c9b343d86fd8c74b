//! A worker is stopped with SIGSTOP for three leases while it holds 100 jobs, and then continues.
//! Another worker holds the jobs by then, and the late settlements are rejected.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tidemill::EventKind;

use crate::environment::Environment;
use crate::job::TestJob;
use crate::ledger::LedgerEvent;

const JOBS: usize = 100;

/// Returns how many settlements were rejected.
pub async fn run(environment: &Environment) -> Result<u64> {
    let jobs = environment.client.jobs((0..JOBS).map(|_| TestJob::FINISH)).enqueue().await?;
    let stalled = environment.start_worker(&environment.gated_worker_spec(JOBS))?;
    environment
        .until("the worker to hold everything", |audit| audit.count(LedgerEvent::Started) == JOBS)
        .await?;
    let successor = environment.start_worker(&environment.worker_spec(JOBS))?;
    stalled.pause()?;
    let halted = Instant::now();

    let done = LedgerEvent::Settled(EventKind::Done);
    environment.until("the successor to finish", |audit| audit.count(done) >= JOBS).await?;
    tokio::time::sleep((environment.lease * 3).saturating_sub(halted.elapsed())).await;
    // Its handlers end the moment it continues, before it can know that time has passed.
    environment.open_gate()?;
    stalled.resume()?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let pid = stalled.pid();
    let (late, right) = (stalled.shut_down()?, successor.shut_down()?);

    ensure!(late.done == 0 && late.lost == JOBS as u64, "the stopped worker has {late:?}");
    ensure!(right.done == JOBS as u64 && right.lost == 0, "the successor has {right:?}");
    let audit = environment.audit()?;
    ensure!(audit.count_by(pid, done) == 0, "a late settlement was accepted");
    audit.assert_ended_once()?;
    audit.assert_all_ran(jobs.iter().map(|job| job.as_str()))?;
    environment.assert_empty().await?;
    Ok(late.lost)
}
