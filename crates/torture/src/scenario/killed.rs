//! A worker is killed with SIGKILL while it holds 100 jobs; another one finishes all of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidemill::EventKind;

use crate::act::Act;
use crate::ledger::{self, Step};
use crate::stage::Stage;

const JOBS: usize = 100;

/// How much later than the lease's end a busy machine may be. On an idle one it is under a second.
const TOLERANCE: Duration = Duration::from_secs(8);

/// Returns how long after the kill the last job was done.
pub async fn run(stage: &Stage) -> Result<Duration> {
    let jobs = stage.client.jobs((0..JOBS).map(|_| Act::INNOCENT)).enqueue().await?;
    let victim = stage.hire(&stage.gated_duty(JOBS))?;
    stage.until("the victim to hold everything", |audit| audit.count(Step::Started) == JOBS).await?;
    let successor = stage.hire(&stage.duty(JOBS))?;
    let killed = ledger::now();
    victim.kill()?;

    let done = Step::Settled(EventKind::Done);
    let audit = stage.until("the successor to finish", |audit| audit.count(done) >= JOBS).await?;
    let took = Duration::from_millis(audit.last(done).context("nothing was done")?.saturating_sub(killed));
    let account = successor.dismiss()?;
    ensure!(account.done == JOBS as u64 && account.lost == 0, "the successor has {account:?}");
    let audit = stage.audit()?;
    audit.assert_ended_once()?;
    audit.assert_all_ran(jobs.iter().map(|job| job.as_str()))?;
    ensure!(audit.per_job(Step::Started).values().all(|times| *times == 2), "a job did not start twice");
    ensure!(took < stage.lease + TOLERANCE, "the jobs were done {took:?} after the kill");
    stage.assert_nothing_is_left().await?;
    Ok(took)
}
