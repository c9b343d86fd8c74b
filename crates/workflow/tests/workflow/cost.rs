//! The cost of a run. Printed, not asserted, because a busy machine is slow.
//!
//! `cargo test --release -p tidemill-workflow --test workflow -- --ignored --nocapture cost`

use std::hint::black_box;

use tidemill_core::Timestamp;
use tidemill_core::workflow::{ActivityResult, Entry, Json, RunEvent};
use tidemill_workflow::{Ctx, Program, Replayer, WorkflowError};

use super::*;
use crate::replay::{advance, started};

async fn sequential(ctx: Ctx, steps: u64) -> Result<u64, WorkflowError> {
    let mut sum = 0;
    for n in 0..steps {
        sum += ctx.activity(&DOUBLE, n).timeout(secs(30)).await?;
    }
    Ok(sum)
}

async fn parked(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let doubled = ctx.activity(&DOUBLE, n).await?;
    Ok(ctx.signals(&GO).recv().await? + doubled)
}

async fn wide(ctx: Ctx, branches: u64) -> Result<u64, WorkflowError> {
    let done = ctx.join_all((0..branches).map(|n| ctx.activity(&DOUBLE, n))).await;
    Ok(done.len() as u64)
}

fn done(seq: u64) -> RunEvent {
    RunEvent::ActivityDone { seq, result: ActivityResult::Ok(Json::from_value(&seq).unwrap()) }
}

fn begin_with(input: u64) -> RunEvent {
    let RunEvent::Started(mut event) = started() else { unreachable!() };
    event.input = Json::from_value(&input).unwrap();
    RunEvent::Started(event)
}

#[test]
#[ignore = "measures"]
fn cost_of_a_cached_step() {
    let mut replayer = crate::replay::replayer(sequential);
    advance(&mut replayer, 1, begin_with(u64::MAX));
    let steps = 20_000;
    let events: Vec<_> = (1..=steps).map(done).collect();
    let begun = Cpu::now();
    for (seq, event) in (1..).zip(events) {
        black_box(advance(&mut replayer, seq * 2 + 1, event));
    }
    println!("a cached step: {:.2} µs", begun.elapsed().as_secs_f64() * 1e6 / steps as f64);
}

#[test]
#[ignore = "measures"]
fn cost_of_a_cold_replay() {
    let mut replayer = crate::replay::replayer(sequential);
    let mut bytes = Vec::new();
    let mut position = 0;
    let mut append = |entry: Entry| {
        position += 1;
        bytes.push(entry.write());
        position
    };
    let mut event = begin_with(u64::MAX);
    for seq in 1..=5_000 {
        let at = append(Entry::event(Timestamp(1), event.clone()));
        let commit = advance(&mut replayer, at, event);
        append(Entry::commit(Timestamp(1), commit));
        event = done(seq);
    }
    let begun = Cpu::now();
    let entries: Vec<_> = bytes.iter().map(|bytes| Entry::read(bytes).unwrap()).collect();
    let read = begun.elapsed();
    let mut cold = crate::replay::replayer(sequential);
    cold.replay(entries).unwrap();
    let all = begun.elapsed();
    println!("a cold replay of {} entries: {:.1} ms, of which reading {:.1}", bytes.len(), ms(all), ms(read));
}

/// The CPU time of this thread: on a busy machine, wall time includes other processes.
struct Cpu(u64);

impl Cpu {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Self(stat.split(' ').next().unwrap().parse().unwrap())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Self::now().0 - self.0)
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[test]
#[ignore = "measures"]
fn cost_of_a_parked_run() {
    let program = Program::new(&MAIN, parked);
    let runs = 50_000;
    let before = resident();
    let machines: Vec<_> = (0..runs)
        .map(|n| {
            let mut replayer = Replayer::new(&program, format!("run-{n:032}").parse().unwrap());
            advance(&mut replayer, 1, started());
            advance(&mut replayer, 3, done(1));
            replayer
        })
        .collect();
    let grown = resident() - before;
    println!("a parked run: {} bytes ({} are the replayer itself)", grown / runs, size_of::<Replayer>());
    drop(machines);
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[ignore = "measures"]
fn cost_of_a_branch() {
    for branches in [10, 100, 1_000, 10_000] {
        let begun = Cpu::now();
        for _ in 0..100_000 / branches {
            let mut replayer = crate::replay::replayer(wide);
            advance(&mut replayer, 1, begin_with(branches));
            for seq in 1..=branches {
                black_box(advance(&mut replayer, seq + 2, done(seq)));
            }
            assert!(replayer.end().is_some());
        }
        println!("a branch of {branches}: {:.2} µs", begun.elapsed().as_secs_f64() * 10.0);
    }
}
