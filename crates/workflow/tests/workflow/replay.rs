//! Replay: the same code reaches the same position, and different code is detected.

use std::future::Future;

use tidemill_core::Timestamp;
use tidemill_core::workflow::{Commit, Entry, Json, PositionedEvent, RunEvent, RunStarted};
use tidemill_workflow::{Advance, Blocked, Ctx, Program, Replayer, WorkflowError, select};

use super::*;

pub(crate) fn replayer<C, F>(code: C) -> Replayer
where
    C: Fn(Ctx, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, WorkflowError>> + Send + 'static,
{
    Replayer::new(&Program::new(&MAIN, code), "test".parse().unwrap())
}

pub(crate) fn started() -> RunEvent {
    let (workflow, version) = ("main".parse().unwrap(), "1.0.0".parse().unwrap());
    RunEvent::Started(Box::new(RunStarted::new(workflow, version, Json::from_value(&1).unwrap())))
}

/// Advances a replayer by one event.
pub(crate) fn advance(replayer: &mut Replayer, position: u64, event: RunEvent) -> Commit {
    let arrived = PositionedEvent { position, at: Timestamp(position as i64), event };
    match replayer.advance([arrived]).unwrap() {
        Advance::Commit(commit) => commit,
        Advance::Local(locals) => panic!("{locals:?} are not wanted here"),
    }
}

/// A replayer after its first commit, and that commit.
pub(crate) fn begun<C, F>(code: C) -> (Replayer, Commit)
where
    C: Fn(Ctx, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, WorkflowError>> + Send + 'static,
{
    let mut replayer = replayer(code);
    let commit = advance(&mut replayer, 1, started());
    (replayer, commit)
}

fn journal<C, F>(code: C) -> Vec<Entry>
where
    C: Fn(Ctx, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, WorkflowError>> + Send + 'static,
{
    run(world().workflow(&MAIN, code)).journal().unwrap().entries.clone()
}

async fn charge_then_sleep(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let doubled = ctx.activity(&DOUBLE, n).await?;
    ctx.sleep(secs(1)).await?;
    Ok(doubled)
}

fn disagreement<C, F>(entries: Vec<Entry>, code: C) -> String
where
    C: Fn(Ctx, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, WorkflowError>> + Send + 'static,
{
    let mut replayer = replayer(code);
    let blocked = replayer.replay(entries).unwrap_err();
    assert!(matches!(blocked, Blocked::Diverged(_)) && !blocked.is_worth_retrying(), "{blocked}");
    assert_eq!(replayer.advance([]).unwrap_err(), blocked, "a replayer that has blocked stays so");
    blocked.to_string()
}

#[test]
fn a_disagreement_says_where_and_what() {
    let report = disagreement(journal(charge_then_sleep), async |ctx: Ctx, n| {
        let doubled = ctx.activity(&FAIL, n).await?;
        Ok(doubled)
    });
    let expected = "\
workflow `main` 1.0.0 does not agree with the journal of run `test`
  at:      entry 2, command 1
  journal: schedule activity `double` (seq 1)
  code:    schedule activity `fail` (seq 1)
  while:   consuming entry 1, `started`
the run goes on when code that agrees is deployed; `ctx.patched` lets old and new agree";
    assert_eq!(report, expected);
}

#[test]
fn code_that_ends_earlier_or_later_is_found_out() {
    let entries = journal(charge_then_sleep);
    let early = disagreement(entries.clone(), async |ctx: Ctx, n| Ok(ctx.activity(&DOUBLE, n).await?));
    assert!(
        early.contains("journal: start timer (seq 2)\n  code:    the run ended with entry 3: completed"),
        "{early}"
    );
    let late = disagreement(entries.clone(), async |ctx: Ctx, n| {
        charge_then_sleep(ctx.clone(), n).await?;
        Ok(ctx.signals(&GO).recv().await?)
    });
    assert!(
        late.contains("the run ended with entry 5: completed\n  code:    the run waits for signal `go`"),
        "{late}"
    );
    let more = disagreement(entries, async |ctx: Ctx, n| {
        charge_then_sleep(ctx.clone(), n).await?;
        ctx.sleep(secs(1)).await?;
        Ok(n)
    });
    assert!(more.contains("journal: nothing more\n  code:    start timer (seq 3)"), "{more}");
}

#[test]
fn code_that_fails_where_it_succeeded_is_found_out() {
    let report = disagreement(journal(charge_then_sleep), async |ctx: Ctx, n| {
        charge_then_sleep(ctx, n).await?;
        Err(WorkflowError::failed("on second thought"))
    });
    assert!(report.contains("code:    the run ended with entry 5: failed: on second thought"), "{report}");
}

#[test]
fn a_different_input_or_timeout_is_no_disagreement() {
    let mut replayer = replayer(async |ctx: Ctx, n: u64| {
        let doubled = ctx.activity(&DOUBLE, n + 1).timeout(secs(77)).queue("other").await?;
        ctx.sleep(secs(99)).await?;
        Ok(doubled)
    });
    replayer.replay(journal(charge_then_sleep)).unwrap();
    assert!(replayer.end().is_some());
}

#[test]
fn a_patch_lets_old_runs_go_the_old_way_and_new_ones_the_new() {
    async fn patched(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        if ctx.patched("no-sleep") {
            return Ok(ctx.activity(&DOUBLE, n + 100).await?);
        }
        let doubled = ctx.activity(&DOUBLE, n).await?;
        // Asked again, a run takes the same path as before.
        if !ctx.patched("no-sleep") {
            ctx.sleep(secs(1)).await?;
        }
        Ok(doubled)
    }
    let old = journal(charge_then_sleep);
    for length in 0..=old.len() {
        let mut replayer = replayer(patched);
        replayer.replay(old[..length].to_vec()).unwrap();
    }
    let new = run(world().workflow(&MAIN, patched));
    assert_eq!(result(&new), Ok(202));
    let report = disagreement(new.journal().unwrap().entries.clone(), charge_then_sleep);
    assert!(report.contains("journal: patch `no-sleep`\n"), "{report}");
}

#[test]
fn local_activities_and_side_effects_are_compared_too() {
    let entries = journal(async |ctx: Ctx, n| {
        let value = ctx.side_effect(|| 5_u64);
        Ok(ctx.local(&DOUBLE, n).await? + value)
    });
    let report = disagreement(entries.clone(), async |ctx: Ctx, n| Ok(ctx.local(&DOUBLE, n).await?));
    assert!(
        report.contains("journal: side effect (seq 1)\n  code:    local activity `double` (seq 1)"),
        "{report}"
    );
    let report = disagreement(entries.clone(), async |ctx: Ctx, n| {
        let value = ctx.side_effect(|| 5_u64);
        Ok(ctx.local(&FAIL, n).await? + value)
    });
    assert!(report.contains("code:    local activity `fail` (seq 2)"), "{report}");
    let report = disagreement(entries, async |ctx: Ctx, _| {
        ctx.sleep(secs(1)).await?;
        Ok(ctx.side_effect(|| 5_u64))
    });
    assert!(report.contains("journal: side effect (seq 1)\n  code:    start timer (seq 1)"), "{report}");
}

#[test]
fn the_right_code_heals_what_the_wrong_code_could_not_replay() {
    let entries = journal(charge_then_sleep);
    let open = entries[..4].to_vec();
    disagreement(open.clone(), async |_: Ctx, n| Ok(n));
    let mut replayer = replayer(charge_then_sleep);
    replayer.replay(open).unwrap();
    let commit = advance(&mut replayer, 5, RunEvent::TimerFired { seq: 2 });
    assert!(commit.end.is_some());
}

#[test]
fn events_between_commits_are_consumed_in_the_order_of_the_commits() {
    async fn race(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let signals = ctx.signals(&GO);
        let first = select! {
            n = signals.recv() => n?,
            n = ctx.activity(&DOUBLE, 50) => n?,
        };
        let second = signals.recv().await?;
        Ok(first * 10 + second)
    }
    for seed in 0..50 {
        let mut world = world().workflow(&MAIN, race).randomized(seed);
        for n in 1..=5 {
            world = world.signal_at(secs(1), &GO, &n);
        }
        let ended = run(world);
        assert_eq!(result(&ended), Ok(12), "seed {seed}");
    }
}
