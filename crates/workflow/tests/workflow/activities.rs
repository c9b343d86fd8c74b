//! Activities and timers.

use tidemill_workflow::testing::NoResult;
use tidemill_workflow::{ActivityError, Ctx, RetryPolicy, WorkflowError, select};

use super::*;

#[test]
fn an_activity_gives_its_result_after_the_time_it_takes() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let begun = ctx.now();
        let doubled = ctx.activity(&DOUBLE, n).await?;
        assert_eq!(begun.until(ctx.now()), secs(1));
        Ok(ctx.activity(&DOUBLE, doubled).await?)
    }
    let ended = run(world().workflow(&MAIN, code));
    assert_eq!(result(&ended), Ok(4));
}

#[test]
fn a_failed_activity_says_what_and_in_which_attempt() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let error = ctx.activity(&FAIL, n).retry(RetryPolicy::exponential(3)).await.unwrap_err();
        assert!(matches!(&error, ActivityError::Failed { attempts: 3, .. }), "{error:?}");
        Err(error.into())
    }
    let ended = run(world().workflow(&MAIN, code));
    let message = "activity `fail` failed in attempt 3: no 1";
    assert_eq!(result(&ended), Err(NoResult::Failed(message.into())));
}

#[test]
fn an_activity_that_takes_too_long_times_out() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let error =
            ctx.activity(&DOUBLE, n).timeout(secs(1) / 2).retry(RetryPolicy::never()).await.unwrap_err();
        assert_eq!(error.to_string(), "activity `double` exceeded its start-to-close timeout in attempt 1");
        Ok(n)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(1));
}

#[test]
fn sleeping_for_years_takes_no_time() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let begun = ctx.now();
        ctx.sleep(secs(3600 * 24 * 365)).await?;
        ctx.sleep_until(begun.after(secs(3600 * 24 * 400))).await?;
        assert_eq!(begun.until(ctx.now()), secs(3600 * 24 * 400));
        Ok(n)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(1));
}

#[test]
fn the_first_of_a_select_wins_and_the_others_are_cancelled() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        Ok(select! {
            doubled = ctx.activity(&DOUBLE, n) => doubled?,
            _ = ctx.sleep(secs(60)) => 60,
            go = ctx.signals(&GO).recv() => { go? }
        })
    }
    let ended = run(world().workflow(&MAIN, code));
    assert_eq!(result(&ended), Ok(2));
    let asked = commands(ended.journal().unwrap());
    assert_eq!(asked, ["schedule activity `double` (seq 1)", "start timer (seq 2)", "cancel timer (seq 2)"]);
}

#[test]
fn a_select_that_has_two_ready_takes_the_one_that_is_written_first() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(5)).await?;
        let (first, second) = (ctx.signals(&GO), ctx.signals(&GO));
        Ok(select! {
            a = first.recv() => a?,
            b = second.recv() => b? + n,
        })
    }
    let world = world().workflow(&MAIN, code).signal_at(secs(1), &GO, &10).signal_at(secs(2), &GO, &20);
    assert_eq!(result(&run(world)), Ok(10));
}

#[test]
fn branches_of_a_select_leave_as_branches_do() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let mut rounds = 0;
        let doubled = loop {
            select! {
                _ = ctx.signals(&GO).recv() => { return Ok(0) }
                _ = ctx.sleep(secs(1)) => {
                    rounds += 1;
                    if rounds < 3 { continue }
                    break ctx.activity(&DOUBLE, n).await?;
                },
                () = ctx.cancelled() => Err(WorkflowError::failed("nobody cancels this"))?
            }
        };
        Ok(doubled + rounds)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(5));
}

#[test]
fn a_future_can_be_raced_again_and_again() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let mut doubling = ctx.activity(&DOUBLE, n);
        let mut ticks = 0;
        loop {
            select! {
                doubled = &mut doubling => return Ok(doubled? * 100 + ticks),
                _ = ctx.sleep(secs(1) / 4) => ticks += 1,
            }
        }
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(203));
}

#[test]
fn what_was_never_awaited_was_never_asked_for() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        drop(ctx.activity(&DOUBLE, n));
        drop(ctx.sleep(secs(1)));
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code));
    assert!(commands(ended.journal().unwrap()).is_empty());
}

#[test]
fn a_workflow_that_waits_for_what_never_comes_says_for_what() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        Ok(ctx.signals(&GO).recv().await?)
    }
    let ended = run(world().workflow(&MAIN, code));
    assert_eq!(result(&ended).unwrap_err().to_string(), "the run still waits for signal `go`");
}
