//! Random workflows: a small language whose programs have one right result, what a worker makes of it, and an oracle
//! that knows the result without running anything.
//!
//! Programs race in many ways (branches, timers, signals, children, crashes), but what they return does not depend on
//! who wins: a select has one branch that cannot, and signals are received in order by one receiver.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tidemill::workflow::RunWorkflows;
use tidemill::workflow::{Activity, Ctx, Signal, Workflow, WorkflowError, select};
use tidemill::{Fail, JobContext, State, WorkerBuilder};

use crate::act::Desk;
use crate::fate::Point;
use crate::ledger::Step as Note;

/// Interprets programs.
pub const PROGRAM: Workflow<Input, Vec<i64>> = Workflow::new("program").version("1.0.0");

/// What a program may receive: as many as it asks for, numbered from 0.
pub const NUMBER: Signal<i64> = Signal::new("number");

/// Nobody ever sends this.
const NEVER: Signal<i64> = Signal::new("never");

/// Adds one, unless the number is unlucky.
pub const WORK: Activity<i64, i64> = Activity::new("work").queue(QUEUE);

/// The activities' queue.
pub const QUEUE: &str = "torture.work";

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it does.
    pub steps: Vec<Step>,
    /// What came of what it did before it continued as new.
    pub so_far: Vec<i64>,
}

/// Something a program does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Runs an activity.
    Work(i64),
    /// Runs one in the task.
    Local(i64),
    /// Rests for so many milliseconds.
    Sleep(u64),
    /// Receives a number.
    Receive,
    /// Runs another program and waits for it.
    Child(Vec<Step>),
    /// The steps against something that never happens.
    Select(Vec<Step>, Never),
    /// All of them at once.
    Join(Vec<Vec<Step>>),
    /// In the background, awaited.
    Spawn(Vec<Step>),
    /// A value computed once.
    SideEffect(i64),
    /// Begins again with these steps.
    ContinueAsNew(Vec<Step>),
}

/// What never happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {
    /// A timer of days.
    Timer,
    /// A signal nobody sends.
    Signal,
    /// A child that waits for a signal nobody sends.
    Child,
}

/// A worker that runs random workflows, too.
pub fn handlers(worker: WorkerBuilder) -> WorkerBuilder {
    worker.workflow(&PROGRAM, interpret).activity(&WORK, work).workflow_cache(50)
}

/// The unlucky ones fail.
fn work_on(number: i64) -> Result<i64, String> {
    if number % 7 == 6 { Err(format!("{number} is unlucky")) } else { Ok(number + 1) }
}

/// A random program, and how many numbers it receives.
pub fn random(random: &mut Rng) -> (Vec<Step>, i64) {
    let mut steps = block(random, 3);
    let mut receives = 0;
    for _ in 0..random.usize(..3) {
        steps.insert(random.usize(..=steps.len()), Step::Receive);
        receives += 1;
    }
    if random.u8(..6) == 0 {
        let (rest, more) = (block(random, 2), random.bool());
        let rest = if more { [vec![Step::Receive], rest].concat() } else { rest };
        receives += i64::from(more);
        steps.push(Step::ContinueAsNew(rest));
    }
    (steps, receives)
}

fn block(random: &mut Rng, depth: u32) -> Vec<Step> {
    (0..random.usize(1..4)).map(|_| step(random, depth)).collect()
}

fn step(random: &mut Rng, depth: u32) -> Step {
    let number = random.i64(0..100);
    match random.u8(..if depth == 0 { 5 } else { 10 }) {
        0..=1 => Step::Work(number),
        2 => Step::Local(number),
        3 => Step::Sleep(random.u64(..40)),
        4 => Step::SideEffect(number),
        5 => Step::Child(block(random, depth - 1)),
        6..=7 => {
            let never = [Never::Timer, Never::Signal, Never::Child][random.usize(..3)];
            Step::Select(block(random, depth - 1), never)
        }
        8 => Step::Join((0..random.usize(1..4)).map(|_| block(random, depth - 1)).collect()),
        _ => Step::Spawn(block(random, depth - 1)),
    }
}

/// What a program returns, by reading it.
pub fn oracle(steps: &[Step]) -> Vec<i64> {
    let (mut out, mut received) = (Vec::new(), 0);
    foretell(steps, &mut received, &mut out);
    out
}

fn foretell(steps: &[Step], received: &mut i64, out: &mut Vec<i64>) {
    for step in steps {
        match step {
            Step::Work(n) | Step::Local(n) => out.push(work_on(*n).unwrap_or(-*n)),
            Step::SideEffect(n) => out.push(*n),
            Step::Sleep(_) => {}
            Step::Receive => {
                out.push(*received);
                *received += 1;
            }
            Step::Child(steps) | Step::Select(steps, _) | Step::Spawn(steps) => {
                foretell(steps, received, out)
            }
            Step::Join(blocks) => blocks.iter().for_each(|block| foretell(block, received, out)),
            Step::ContinueAsNew(steps) => return foretell(steps, received, out),
        }
    }
}

/// The activity.
pub async fn work(number: i64, State(desk): State<Desk>, cx: JobContext) -> Result<i64, Fail> {
    desk.ledger.note(Note::Started, cx.id(), cx.attempt())?;
    desk.doom.reach(Point::Begins);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..10))).await;
    work_on(number).map_err(|error| Fail::dead("unlucky", error))
}

/// The workflow.
pub async fn interpret(ctx: Ctx, input: Input) -> Result<Vec<i64>, WorkflowError> {
    let mut out = input.so_far;
    for step in input.steps {
        if let Step::ContinueAsNew(steps) = step {
            return ctx.continue_as_new(&Input { steps, so_far: out });
        }
        out.extend(perform(&ctx, step).await?);
    }
    Ok(out)
}

type Outcome = Result<Vec<i64>, WorkflowError>;

fn perform_all(ctx: Ctx, steps: Vec<Step>) -> futures_util::future::BoxFuture<'static, Outcome> {
    Box::pin(async move {
        let mut out = Vec::new();
        for step in steps {
            out.extend(perform(&ctx, step).await?);
        }
        Ok(out)
    })
}

async fn perform(ctx: &Ctx, step: Step) -> Outcome {
    Ok(match step {
        Step::Work(n) => vec![ctx.activity(&WORK, n).await.unwrap_or(-n)],
        Step::Local(n) => vec![ctx.local(&WORK, n).await.unwrap_or(-n)],
        Step::Sleep(ms) => {
            ctx.sleep(Duration::from_millis(ms)).await?;
            Vec::new()
        }
        Step::Receive => vec![ctx.signals(&NUMBER).recv().await?],
        Step::SideEffect(n) => vec![ctx.side_effect(|| n)],
        Step::Child(steps) => ctx.child(&PROGRAM, Input { steps, so_far: Vec::new() }).await?,
        Step::Select(steps, never) => against(ctx, steps, never).await?,
        Step::Join(blocks) => {
            let all = ctx.join_all(blocks.into_iter().map(|steps| perform_all(ctx.clone(), steps))).await;
            all.into_iter().collect::<Result<Vec<_>, _>>()?.concat()
        }
        Step::Spawn(steps) => ctx.spawn(perform_all(ctx.clone(), steps)).await?,
        Step::ContinueAsNew(_) => Vec::new(),
    })
}

async fn against(ctx: &Ctx, steps: Vec<Step>, never: Never) -> Outcome {
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
            _ = ctx.child(&PROGRAM, Input { steps: vec![Step::Receive], so_far: Vec::new() }) => {
                Err(WorkflowError::failed("a child got what nobody sent"))
            }
        },
    }
}
