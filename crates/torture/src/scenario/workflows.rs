//! Random workflows run while their workers are killed again and again. Each returns what the oracle says, each
//! activity's end is in its journal once, and every journal replays from every prefix.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::workflow::{Program, RunHandle, StartWorkflows};

use crate::crew::Member;
use crate::duty::Duty;
use crate::journals::{ended_once, replays};
use crate::program::{self, Input, NUMBER, PROGRAM, Step};
use crate::stage::{PATIENCE, Stage};

/// How many workers there are at any time.
const CREW: usize = 2;

/// How long a worker lives, at most.
const LIFE: Duration = Duration::from_millis(1_500);

/// How many runs are under way at once.
const OPEN: usize = 100;

/// What came of it.
#[derive(Debug, Default)]
pub struct Reckoning {
    /// Programs that were run.
    pub programs: usize,
    /// Workers that were killed.
    pub killed: usize,
    /// Activities in all journals.
    pub activities: usize,
    /// Entries in all journals.
    pub entries: usize,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, killed, activities, entries } = self;
        write!(
            f,
            "{programs} random workflows, {killed} workers killed: results as foretold, {activities} activities each \
             ended once in {entries} journal entries, which all replay"
        )
    }
}

struct Running {
    steps: Vec<Step>,
    handle: RunHandle<Vec<i64>>,
}

/// Runs this many programs while workers are killed.
pub async fn run(stage: &Stage, seed: u64, programs: usize) -> Result<Reckoning> {
    let mut random = fastrand::Rng::with_seed(seed);
    let duty = Duty { programs: true, ..stage.duty(16) };
    let mut crew: Vec<_> = (0..CREW).map(|_| stage.hire(&duty)).collect::<Result<_>>()?;
    let mut reckoning = Reckoning { programs, ..Reckoning::default() };
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    let mut next_kill = Instant::now() + LIFE;
    while closed.len() < programs {
        while open.len() < OPEN && open.len() + closed.len() < programs {
            open.push(start(stage, &mut random).await?);
        }
        if Instant::now() > next_kill {
            replace(stage, &duty, &mut crew, &mut random)?;
            reckoning.killed += 1;
            next_kill = Instant::now() + LIFE.mul_f64(random.f64() / CREW as f64);
        }
        harvest(&mut open, &mut closed).await?;
    }
    for run in &closed {
        judge(run, &mut reckoning).await?;
    }
    for member in crew {
        member.dismiss()?;
    }
    Ok(reckoning)
}

fn replace(stage: &Stage, duty: &Duty, crew: &mut [Member], random: &mut fastrand::Rng) -> Result<()> {
    let victim = random.usize(..crew.len());
    std::mem::replace(&mut crew[victim], stage.hire(duty)?).kill()
}

async fn start(stage: &Stage, random: &mut fastrand::Rng) -> Result<Running> {
    let (steps, receives) = program::random(random);
    let input = Input { steps: steps.clone(), so_far: Vec::new() };
    let handle = stage.client.workflow(&PROGRAM, input).start().await?;
    for number in 0..receives {
        handle.signal(&NUMBER, &number).await?;
    }
    Ok(Running { steps, handle })
}

/// Waits for the oldest run for a moment; what has ended is put aside.
async fn harvest(open: &mut Vec<Running>, closed: &mut Vec<Running>) -> Result<()> {
    let Some(oldest) = open.first() else { return Ok(()) };
    match tokio::time::timeout(Duration::from_millis(200), oldest.handle.result()).await {
        Err(_) => {
            let age = oldest.handle.info().await?.started_at.until(tidemill::Timestamp::now());
            ensure!(age < PATIENCE, "run {} has not ended: {:?}", oldest.handle.id(), oldest.steps);
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

async fn judge(run: &Running, reckoning: &mut Reckoning) -> Result<()> {
    let journal = run.handle.journal().await?;
    reckoning.entries += journal.entries.len();
    reckoning.activities += ended_once(&journal)?;
    replays(Program::new(&PROGRAM, program::interpret), &journal)
}
