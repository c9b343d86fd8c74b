//! Two workers and one run. One worker is stopped with SIGSTOP in the middle of a task until the
//! other has committed the task. Then it continues, and its commit is rejected. Alone with the run,
//! it continues from the other's commit.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::workflow::{Command, Journal, Program, RunHandle, StartWorkflows};

use crate::environment::{Environment, TIMEOUT};
use crate::journals::{assert_numbered, commands, commits, ended_once, replays};
use crate::kill_points::{KillPoint, PlannedSignal};
use crate::ledger::LedgerEvent;
use crate::program::{self, NUMBER, PROGRAM, ProgramInput, ProgramStep};
use crate::worker_main::{WorkerReport, WorkerSpec};
use crate::worker_process::WorkerProcess;

/// Interval of checks of the journal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The points where it is stopped: while the task runs, and before its commit.
pub const KILL_POINTS: [KillPoint; 2] = [KillPoint::Begins, KillPoint::Commits];

/// Returns how many commits were rejected.
pub async fn run(environment: &Environment) -> Result<u64> {
    let mut refused = 0;
    for point in KILL_POINTS {
        refused += stopped_at(environment, point).await.with_context(|| format!("stopped at {point}"))?;
    }
    Ok(refused)
}

async fn stopped_at(environment: &Environment, point: KillPoint) -> Result<u64> {
    let steps =
        vec![ProgramStep::Local(1), ProgramStep::Receive, ProgramStep::Work(2), ProgramStep::Local(3)];
    let expected = program::oracle(&steps);
    environment.close_gate()?;
    let started_before = environment.audit()?.count(LedgerEvent::Started);
    let run =
        environment.client.workflow(&PROGRAM, ProgramInput { steps, results: Vec::new() }).start().await?;
    let mut stalled = environment.start_worker(&WorkerSpec {
        programs: true,
        signal: Some(PlannedSignal::StopAt(point)),
        ..environment.gated_worker_spec(4)
    })?;
    stalled.wait_for_kill_point()?;
    while environment.store().is_write_locked()? {
        stalled.resume()?;
    }
    let successor = environment.start_worker(&WorkerSpec { programs: true, ..environment.worker_spec(4) })?;
    let taken_over = first_commit(&run).await?;

    environment.open_gate()?;
    let late = resume_paused(stalled, successor, &run).await?;
    // A blocked claim on Redis may receive the task again while its worker is stopped, and that
    // lease expires, too.
    ensure!((1..=2).contains(&late.lost), "the stopped worker has {late:?}");
    let result = run.wait().await?;
    ensure!(result == expected, "{result:?}, not {expected:?}");
    let journal = run.journal().await?;
    let kept = journal.entries.starts_with(&taken_over.entries);
    ensure!(kept, "the late commit shows: {taken_over:?} became {journal:?}");
    check(environment, &journal).await?;
    // Both workers ran the first activity, and the remaining worker ran the two others.
    let started = (environment.audit()?.count(LedgerEvent::Started) - started_before) as u64;
    ensure!((4..=3 + late.lost).contains(&started), "{started} activities were begun, {late:?}");
    Ok(late.lost)
}

/// Continues the stopped worker and shuts the other one down, so that it alone handles the signal.
async fn resume_paused(
    stalled: WorkerProcess,
    successor: WorkerProcess,
    run: &RunHandle<Vec<i64>>,
) -> Result<WorkerReport> {
    stalled.resume()?;
    let right = successor.shut_down()?;
    ensure!((right.done, right.lost) == (1, 0), "the successor has {right:?}");
    run.signal(&NUMBER, &0).await?;
    run.wait_for(TIMEOUT).await?;
    let late = stalled.shut_down()?;
    // Two tasks and one activity.
    ensure!(late.done == 3, "the stopped worker has {late:?}");
    Ok(late)
}

/// Waits for the first commit and returns the journal.
async fn first_commit(run: &RunHandle<Vec<i64>>) -> Result<Journal> {
    let started = Instant::now();
    loop {
        let journal = run.journal().await?;
        if commits(&journal) > 0 {
            return Ok(journal);
        }
        ensure!(started.elapsed() < TIMEOUT, "no worker has taken {} over", run.id());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn check(environment: &Environment, journal: &Journal) -> Result<()> {
    assert_numbered(&**environment.client.store(), &journal.run).await?;
    replays(Program::new(&PROGRAM, program::interpret), journal)?;
    ensure!(commits(journal) == 3, "{} has {} commits", journal.run, commits(journal));
    let locals = commands(journal).filter(|command| matches!(command, Command::LocalActivity { .. })).count();
    let activities = ended_once(journal)?;
    ensure!((locals, activities) == (2, 1), "{locals} local activities, {activities} others in {journal:?}");
    Ok(())
}
