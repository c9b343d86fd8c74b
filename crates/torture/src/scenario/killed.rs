//! A worker is killed with SIGKILL while it holds 100 jobs; another worker finishes all of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidemill::EventKind;

use crate::environment::Environment;
use crate::job::TestJob;
use crate::ledger::{self, LedgerEvent};

const JOBS: usize = 100;

/// Tolerance after the lease's end on a busy machine. On an idle one it is under a second.
const TOLERANCE: Duration = Duration::from_secs(8);

/// Returns the time from the kill until the last job was done.
pub async fn run(environment: &Environment) -> Result<Duration> {
    let jobs = environment.client.jobs((0..JOBS).map(|_| TestJob::FINISH)).enqueue().await?;
    let victim = environment.start_worker(&environment.gated_worker_spec(JOBS))?;
    environment
        .until("the victim to hold everything", |audit| audit.count(LedgerEvent::Started) == JOBS)
        .await?;
    let successor = environment.start_worker(&environment.worker_spec(JOBS))?;
    let killed = ledger::now();
    victim.kill()?;

    let done = LedgerEvent::Settled(EventKind::Done);
    let audit = environment.until("the successor to finish", |audit| audit.count(done) >= JOBS).await?;
    let took = Duration::from_millis(audit.last(done).context("nothing was done")?.saturating_sub(killed));
    let report = successor.shut_down()?;
    ensure!(report.done == JOBS as u64 && report.lost == 0, "the successor has {report:?}");
    let audit = environment.audit()?;
    audit.assert_ended_once()?;
    audit.assert_all_ran(jobs.iter().map(|job| job.as_str()))?;
    ensure!(
        audit.per_job(LedgerEvent::Started).values().all(|times| *times == 2),
        "a job did not start twice"
    );
    ensure!(took < environment.lease + TOLERANCE, "the jobs were done {took:?} after the kill");
    environment.assert_empty().await?;
    Ok(took)
}
