//! Random workflows: a small language, its interpreter as a workflow, and an oracle that predicts
//! the result of a program without running it.
//!
//! Programs race in many ways (branches, timers, signals, children, crashes), but their results do
//! not depend on the winner. A select has one branch that never completes, and one receiver
//! receives all signals in order.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tidemill::workflow::RunWorkflows;
use tidemill::workflow::{Activity, Ctx, Signal, Workflow, WorkflowError, select};
use tidemill::{Fail, JobContext, State, WorkerBuilder};

use crate::job::HandlerState;
use crate::kill_points::KillPoint;
use crate::ledger::LedgerEvent;

/// The workflow that interprets programs.
pub const PROGRAM: Workflow<ProgramInput, Vec<i64>> = Workflow::new("program").version("1.0.0");

/// The signal that a program receives, numbered from 0.
pub const NUMBER: Signal<i64> = Signal::new("number");

/// A signal that is never sent.
const NEVER: Signal<i64> = Signal::new("never");

/// The activity that adds one, and fails for unlucky numbers.
pub const WORK: Activity<i64, i64> = Activity::new("work").queue(QUEUE);

/// The queue of the activities.
pub const QUEUE: &str = "torture.work";

/// The input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramInput {
    /// The steps to perform.
    pub steps: Vec<ProgramStep>,
    /// The results from before it continued as new.
    pub results: Vec<i64>,
}

/// A step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramStep {
    /// Runs an activity.
    Work(i64),
    /// Runs a local activity.
    Local(i64),
    /// Sleeps for this many milliseconds.
    Sleep(u64),
    /// Receives a number.
    Receive,
    /// Runs another program and waits for it.
    Child(Vec<ProgramStep>),
    /// Selects between the steps and something that never happens.
    Select(Vec<ProgramStep>, Never),
    /// Performs all blocks concurrently.
    Join(Vec<Vec<ProgramStep>>),
    /// Spawns the steps and awaits them.
    Spawn(Vec<ProgramStep>),
    /// A side effect.
    SideEffect(i64),
    /// Continues as new with these steps.
    ContinueAsNew(Vec<ProgramStep>),
}

/// The branch of a select that never completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {
    /// A timer of days.
    Timer,
    /// A signal that is never sent.
    Signal,
    /// A child that waits for a signal that is never sent.
    Child,
}

/// Adds the random workflows to a worker.
pub fn handlers(worker: WorkerBuilder) -> WorkerBuilder {
    worker.workflow(&PROGRAM, interpret).activity(&WORK, work).workflow_cache(50)
}

/// Fails for unlucky numbers.
fn work_on(number: i64) -> Result<i64, String> {
    if number % 7 == 6 { Err(format!("{number} is unlucky")) } else { Ok(number + 1) }
}

/// A random program, and how many signals it receives.
pub fn random(random: &mut Rng) -> (Vec<ProgramStep>, i64) {
    let mut steps = block(random, 3);
    let mut receives = 0;
    for _ in 0..random.usize(..3) {
        steps.insert(random.usize(..=steps.len()), ProgramStep::Receive);
        receives += 1;
    }
    if random.u8(..6) == 0 {
        let (rest, more) = (block(random, 2), random.bool());
        let rest = if more { [vec![ProgramStep::Receive], rest].concat() } else { rest };
        receives += i64::from(more);
        steps.push(ProgramStep::ContinueAsNew(rest));
    }
    (steps, receives)
}

fn block(random: &mut Rng, depth: u32) -> Vec<ProgramStep> {
    (0..random.usize(1..4)).map(|_| step(random, depth)).collect()
}

fn step(random: &mut Rng, depth: u32) -> ProgramStep {
    let number = random.i64(0..100);
    match random.u8(..if depth == 0 { 5 } else { 10 }) {
        0..=1 => ProgramStep::Work(number),
        2 => ProgramStep::Local(number),
        3 => ProgramStep::Sleep(random.u64(..40)),
        4 => ProgramStep::SideEffect(number),
        5 => ProgramStep::Child(block(random, depth - 1)),
        6..=7 => {
            let never = [Never::Timer, Never::Signal, Never::Child][random.usize(..3)];
            ProgramStep::Select(block(random, depth - 1), never)
        }
        8 => ProgramStep::Join((0..random.usize(1..4)).map(|_| block(random, depth - 1)).collect()),
        _ => ProgramStep::Spawn(block(random, depth - 1)),
    }
}

/// Predicts the result of a program.
pub fn oracle(steps: &[ProgramStep]) -> Vec<i64> {
    let (mut out, mut received) = (Vec::new(), 0);
    predict(steps, &mut received, &mut out);
    out
}

fn predict(steps: &[ProgramStep], received: &mut i64, out: &mut Vec<i64>) {
    for step in steps {
        match step {
            ProgramStep::Work(n) | ProgramStep::Local(n) => out.push(work_on(*n).unwrap_or(-*n)),
            ProgramStep::SideEffect(n) => out.push(*n),
            ProgramStep::Sleep(_) => {}
            ProgramStep::Receive => {
                out.push(*received);
                *received += 1;
            }
            ProgramStep::Child(steps) | ProgramStep::Select(steps, _) | ProgramStep::Spawn(steps) => {
                predict(steps, received, out)
            }
            ProgramStep::Join(blocks) => blocks.iter().for_each(|block| predict(block, received, out)),
            ProgramStep::ContinueAsNew(steps) => return predict(steps, received, out),
        }
    }
}

/// The handler of the activity.
pub async fn work(number: i64, State(state): State<HandlerState>, cx: JobContext) -> Result<i64, Fail> {
    state.ledger.record(LedgerEvent::Started, cx.id(), cx.attempt())?;
    state.kill_switch.reach(KillPoint::Begins);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..10))).await;
    work_on(number).map_err(|error| Fail::dead("unlucky", error))
}

/// The workflow: interprets the steps.
pub async fn interpret(ctx: Ctx, input: ProgramInput) -> Result<Vec<i64>, WorkflowError> {
    let mut out = input.results;
    for step in input.steps {
        if let ProgramStep::ContinueAsNew(steps) = step {
            return ctx.continue_as_new(&ProgramInput { steps, results: out });
        }
        out.extend(perform(&ctx, step).await?);
    }
    Ok(out)
}

type StepResult = Result<Vec<i64>, WorkflowError>;

fn perform_all(ctx: Ctx, steps: Vec<ProgramStep>) -> futures_util::future::BoxFuture<'static, StepResult> {
    Box::pin(async move {
        let mut out = Vec::new();
        for step in steps {
            out.extend(perform(&ctx, step).await?);
        }
        Ok(out)
    })
}

async fn perform(ctx: &Ctx, step: ProgramStep) -> StepResult {
    Ok(match step {
        ProgramStep::Work(n) => vec![ctx.activity(&WORK, n).await.unwrap_or(-n)],
        ProgramStep::Local(n) => vec![ctx.local(&WORK, n).await.unwrap_or(-n)],
        ProgramStep::Sleep(ms) => {
            ctx.sleep(Duration::from_millis(ms)).await?;
            Vec::new()
        }
        ProgramStep::Receive => vec![ctx.signals(&NUMBER).recv().await?],
        ProgramStep::SideEffect(n) => vec![ctx.side_effect(|| n)],
        ProgramStep::Child(steps) => ctx.child(&PROGRAM, ProgramInput { steps, results: Vec::new() }).await?,
        ProgramStep::Select(steps, never) => select_against(ctx, steps, never).await?,
        ProgramStep::Join(blocks) => {
            let all = ctx.join_all(blocks.into_iter().map(|steps| perform_all(ctx.clone(), steps))).await;
            all.into_iter().collect::<Result<Vec<_>, _>>()?.concat()
        }
        ProgramStep::Spawn(steps) => ctx.spawn(perform_all(ctx.clone(), steps)).await?,
        ProgramStep::ContinueAsNew(_) => Vec::new(),
    })
}

async fn select_against(ctx: &Ctx, steps: Vec<ProgramStep>, never: Never) -> StepResult {
    let steps = perform_all(ctx.clone(), steps);
    match never {
        Never::Timer => select! {
            out = steps => out,
            _ = ctx.sleep(Duration::from_secs(200_000)) => Err(WorkflowError::failed("days have passed")),
        },
        Never::Signal => select! {
            out = steps => out,
            _ = ctx.signals(&NEVER).recv() => Err(WorkflowError::failed("somebody signalled")),
        },
        Never::Child => select! {
            out = steps => out,
            _ = ctx.child(&PROGRAM, ProgramInput { steps: vec![ProgramStep::Receive], results: Vec::new() }) => {
                Err(WorkflowError::failed("a child got what nobody sent"))
            }
        },
    }
}
