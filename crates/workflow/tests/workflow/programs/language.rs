//! A small language of workflows, and the workflow that interprets it.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tidemill_workflow::testing::TestWorld;
use tidemill_workflow::{Activity, Ctx, ParentClose, Signal, Workflow, WorkflowError, join, select};

pub(super) const PROGRAM: Workflow<Vec<Step>, Vec<String>> = Workflow::new("program");
pub(super) const RED: Signal<u64> = Signal::new("red");
pub(super) const BLUE: Signal<u64> = Signal::new("blue");
const WORK: Activity<u64, u64> = Activity::new("work");

/// A step of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    Activity(u64),
    Local(u64),
    Sleep(u64),
    Receive(bool),
    TryReceive(bool),
    Child(Vec<Step>, u8),
    Select(Vec<Step>, Vec<Step>, u64),
    Join(Vec<Step>, Vec<Step>),
    JoinAll(Vec<Vec<Step>>),
    Spawn(Vec<Step>, bool),
    Shielded(Vec<Step>),
    UntilCancelled(Vec<Step>),
    Signal(bool),
    SideEffect,
    Patched(u8),
    Random,
    Attribute(u64),
    ContinueAsNew,
    Fail,
}

pub(super) fn program() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..6)
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![
        4 => (0..100_u64).prop_map(Step::Activity),
        1 => (0..100_u64).prop_map(Step::Local),
        3 => (0..200_u64).prop_map(Step::Sleep),
        2 => any::<bool>().prop_map(Step::Receive),
        1 => any::<bool>().prop_map(Step::TryReceive),
        1 => any::<bool>().prop_map(Step::Signal),
        1 => Just(Step::SideEffect),
        1 => (0..3_u8).prop_map(Step::Patched),
        1 => Just(Step::Random),
        1 => (0..9_u64).prop_map(Step::Attribute),
        1 => Just(Step::ContinueAsNew),
        1 => Just(Step::Fail),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let block = || vec(inner.clone(), 1..4);
        prop_oneof![
            (block(), 0..4_u8).prop_map(|(steps, how)| Step::Child(steps, how)),
            (block(), block(), 0..200_u64).prop_map(|(a, b, ms)| Step::Select(a, b, ms)),
            (block(), block()).prop_map(|(a, b)| Step::Join(a, b)),
            vec(block(), 0..5).prop_map(Step::JoinAll),
            (block(), any::<bool>()).prop_map(|(steps, awaited)| Step::Spawn(steps, awaited)),
            block().prop_map(Step::Shielded),
            block().prop_map(Step::UntilCancelled),
        ]
    })
}

/// A world in which `work` fails for every seventh number.
pub(super) fn world() -> TestWorld {
    TestWorld::new().activity(&WORK, |n| if n % 7 == 6 { Err(format!("{n} is unlucky")) } else { Ok(n + 1) })
}

pub(super) async fn interpret(ctx: Ctx, steps: Vec<Step>) -> Result<Vec<String>, WorkflowError> {
    let mut trace = vec![format!("begun at {}", ctx.now())];
    trace.extend(block(ctx, steps).await?);
    Ok(trace)
}

type Trace = Result<Vec<String>, WorkflowError>;

fn block(ctx: Ctx, steps: Vec<Step>) -> BoxFuture<'static, Trace> {
    async move {
        let mut trace = Vec::new();
        for next in steps {
            match step_once(&ctx, next).await {
                Ok(more) => trace.extend(more),
                // Some blocks continue after a failure, so that the test covers more than the first
                // one.
                Err(error) if trace.len() % 2 == 0 || error.is_continue_as_new() => return Err(error),
                Err(error) => trace.push(format!("{error} at {}", ctx.now())),
            }
        }
        Ok(trace)
    }
    .boxed()
}

async fn step_once(ctx: &Ctx, step: Step) -> Trace {
    let one = |what: String| Ok(vec![what]);
    match step {
        Step::Activity(n) => one(format!("worked {}", ctx.activity(&WORK, n).await?)),
        Step::Local(n) => one(format!("worked here {}", ctx.local(&WORK, n).await?)),
        Step::Sleep(ms) => {
            ctx.sleep(Duration::from_millis(ms)).await?;
            one(format!("slept until {}", ctx.now()))
        }
        Step::Receive(red) => one(format!("got {}", ctx.signals(color(red)).recv().await?)),
        Step::TryReceive(red) => one(format!("perhaps {:?}", ctx.signals(color(red)).try_recv())),
        Step::Signal(red) => {
            let sent = ctx.signal(&ctx.run_id(), color(red), &99).await;
            one(format!("sent {sent:?}"))
        }
        Step::SideEffect => one(format!("computed {}", ctx.side_effect(|| 42_u64))),
        Step::Patched(n) => one(format!("patched {}", ctx.patched(&format!("patch-{n}")))),
        Step::Random => one(format!("rolled {} {}", ctx.random_range(0..1000), ctx.uuid())),
        Step::Attribute(n) => {
            ctx.set_attribute("number", &n);
            Ok(Vec::new())
        }
        Step::Fail => Err(WorkflowError::failed("failed on purpose")),
        Step::ContinueAsNew if ctx.continued() < 2 => {
            ctx.continue_as_new(&vec![Step::Receive(true), Step::Activity(3)])
        }
        Step::ContinueAsNew => one("continued enough".into()),
        nested => inner(ctx, nested).await,
    }
}

async fn inner(ctx: &Ctx, step: Step) -> Trace {
    match step {
        Step::Child(steps, how) => child(ctx, steps, how).await,
        Step::Select(a, b, ms) => select! {
            trace = block(ctx.clone(), a) => trace,
            trace = block(ctx.clone(), b) => trace,
            _ = ctx.sleep(Duration::from_millis(ms)) => Ok(vec!["too late".into()]),
        },
        Step::Join(a, b) => {
            let (a, b) = join!(block(ctx.clone(), a), block(ctx.clone(), b));
            Ok([a?, b?].concat())
        }
        Step::JoinAll(blocks) => {
            let traces = ctx.join_all(blocks.into_iter().map(|steps| block(ctx.clone(), steps))).await;
            Ok(traces.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
        }
        Step::Spawn(steps, awaited) => {
            let task = ctx.spawn(block(ctx.clone(), steps));
            if awaited { task.await } else { Ok(Vec::new()) }
        }
        Step::Shielded(steps) => block(ctx.shielded(), steps).await,
        Step::UntilCancelled(steps) => select! {
            _ = ctx.cancelled() => Ok(vec![format!("cancelled at {}", ctx.now())]),
            trace = block(ctx.clone(), steps) => trace,
        },
        leaf => unreachable!("{leaf:?} has no steps of its own"),
    }
}

async fn child(ctx: &Ctx, steps: Vec<Step>, how: u8) -> Trace {
    let call = ctx.child(&PROGRAM, steps);
    match how {
        0 => Ok(call.await?),
        1 => Ok(call.parent_close(ParentClose::Cancel).start().await?.await?),
        2 => Ok(vec![format!("left {} alone", call.detach().await?)]),
        _ => {
            let child = call.parent_close(ParentClose::Abandon).start().await?;
            let sent = ctx.signal(child.run_id(), &RED, &7).await;
            Ok(vec![format!("sent {sent:?}, got {:?}", child.await)])
        }
    }
}

fn color(red: bool) -> &'static Signal<u64> {
    if red { &RED } else { &BLUE }
}
