//! Random workflows, while their workers are killed again and again. Each returns the predicted
//! result, each activity ends once in its journal, and every journal replays from every prefix.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::workflow::{Program, RunHandle, StartWorkflows};

use crate::environment::{Environment, TIMEOUT};
use crate::journals::{ended_once, replays};
use crate::program::{self, NUMBER, PROGRAM, ProgramInput, ProgramStep};
use crate::worker_main::WorkerSpec;
use crate::worker_process::WorkerProcess;

/// Number of workers at any time.
const WORKERS: usize = 2;

/// Maximum lifetime of a worker.
const MAX_WORKER_LIFETIME: Duration = Duration::from_millis(1_500);

/// Maximum number of open runs.
const MAX_OPEN_RUNS: usize = 100;

/// The report of the scenario.
#[derive(Debug, Default)]
pub struct WorkflowsReport {
    /// Programs that ran.
    pub programs: usize,
    /// Workers that were killed.
    pub killed: usize,
    /// Activities in all journals.
    pub activities: usize,
    /// Entries in all journals.
    pub entries: usize,
}

impl fmt::Display for WorkflowsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, killed, activities, entries } = self;
        write!(
            f,
            "{programs} random workflows, {killed} workers killed: results as predicted, {activities} activities each \
             ended once in {entries} journal entries, which all replay"
        )
    }
}

struct OpenRun {
    steps: Vec<ProgramStep>,
    handle: RunHandle<Vec<i64>>,
}

/// Runs this many programs while workers are killed.
pub async fn run(environment: &Environment, seed: u64, programs: usize) -> Result<WorkflowsReport> {
    let mut random = fastrand::Rng::with_seed(seed);
    let spec = WorkerSpec { programs: true, ..environment.worker_spec(16) };
    let mut workers: Vec<_> = (0..WORKERS).map(|_| environment.start_worker(&spec)).collect::<Result<_>>()?;
    let mut report = WorkflowsReport { programs, ..WorkflowsReport::default() };
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    let mut next_kill = Instant::now() + MAX_WORKER_LIFETIME;
    while closed.len() < programs {
        while open.len() < MAX_OPEN_RUNS && open.len() + closed.len() < programs {
            open.push(start(environment, &mut random).await?);
        }
        if Instant::now() > next_kill {
            replace(environment, &spec, &mut workers, &mut random)?;
            report.killed += 1;
            next_kill = Instant::now() + MAX_WORKER_LIFETIME.mul_f64(random.f64() / WORKERS as f64);
        }
        collect_oldest(&mut open, &mut closed).await?;
    }
    for run in &closed {
        check(run, &mut report).await?;
    }
    for worker in workers {
        worker.shut_down()?;
    }
    Ok(report)
}

fn replace(
    environment: &Environment,
    spec: &WorkerSpec,
    workers: &mut [WorkerProcess],
    random: &mut fastrand::Rng,
) -> Result<()> {
    let victim = random.usize(..workers.len());
    std::mem::replace(&mut workers[victim], environment.start_worker(spec)?).kill()
}

async fn start(environment: &Environment, random: &mut fastrand::Rng) -> Result<OpenRun> {
    let (steps, receives) = program::random(random);
    let input = ProgramInput { steps: steps.clone(), results: Vec::new() };
    let handle = environment.client.workflow(&PROGRAM, input).start().await?;
    for number in 0..receives {
        handle.signal(&NUMBER, &number).await?;
    }
    Ok(OpenRun { steps, handle })
}

/// Waits a moment for the oldest run; moves it to `closed` when it has ended.
async fn collect_oldest(open: &mut Vec<OpenRun>, closed: &mut Vec<OpenRun>) -> Result<()> {
    let Some(oldest) = open.first() else { return Ok(()) };
    match tokio::time::timeout(Duration::from_millis(200), oldest.handle.wait()).await {
        Err(_) => {
            let age = oldest.handle.info().await?.started_at.until(tidemill::Timestamp::now());
            ensure!(age < TIMEOUT, "run {} has not ended: {:?}", oldest.handle.id(), oldest.steps);
            Ok(())
        }
        Ok(result) => {
            let run = open.remove(0);
            let about = || format!("run {} of {:?}", run.handle.id(), run.steps);
            let result = result.with_context(about)?;
            let expected = program::oracle(&run.steps);
            ensure!(result == expected, "{}: {result:?}, not {expected:?}", about());
            closed.push(run);
            Ok(())
        }
    }
}

async fn check(run: &OpenRun, report: &mut WorkflowsReport) -> Result<()> {
    let journal = run.handle.journal().await?;
    report.entries += journal.entries.len();
    report.activities += ended_once(&journal)?;
    replays(Program::new(&PROGRAM, program::interpret), &journal)
}
