//! Cancellation: with and without code that waits for the request.

use tidemill_workflow::testing::NoResult;
use tidemill_workflow::{ActivityError, Ctx, WorkflowError, select};

use super::*;

#[test]
fn a_cancel_ends_every_await_and_the_run() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let (doubled, slept) = tidemill_workflow::join!(ctx.activity(&DOUBLE, n), ctx.sleep(secs(100)));
        assert_eq!(doubled, Ok(2));
        slept?;
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(50)));
    assert_eq!(result(&ended), Err(NoResult::Cancelled));
    let asked = commands(ended.journal().unwrap());
    assert_eq!(asked.last().unwrap(), "cancel timer (seq 2)");
}

#[test]
fn code_that_listens_decides() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        select! {
            _ = ctx.sleep(secs(100)) => Ok(n),
            _ = ctx.cancelled() => Ok(ctx.shielded().activity(&DOUBLE, 21).await?),
        }
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(50)));
    assert_eq!(result(&ended), Ok(42));
}

#[test]
fn while_somebody_listens_nothing_else_is_disturbed() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let listener = ctx.clone();
        let heard = ctx.spawn(async move { listener.cancelled().await });
        ctx.sleep(secs(100)).await?;
        heard.await;
        assert!(ctx.is_cancelled());
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(50)));
    assert_eq!(result(&ended), Ok(1));
}

#[test]
fn after_the_request_nothing_new_is_asked_for_unless_it_is_shielded() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        assert!(ctx.sleep(secs(100)).await.is_err());
        assert_eq!(ctx.activity(&DOUBLE, n).await, Err(ActivityError::Cancelled { activity: "double" }));
        assert!(ctx.signals(&GO).recv().await.is_err() && ctx.sleep(secs(1)).await.is_err());
        ctx.cancelled().await;
        let shielded = ctx.shielded();
        shielded.sleep(secs(1)).await?;
        Ok(shielded.activity(&DOUBLE, n).await?)
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(50)));
    assert_eq!(result(&ended), Ok(2));
    let asked = commands(ended.journal().unwrap());
    let expected = [
        "start timer (seq 1)",
        "cancel timer (seq 1)",
        "start timer (seq 2)",
        "schedule activity `double` (seq 3)",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn what_is_shielded_goes_on() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.shielded().sleep(secs(100)).await?;
        ctx.sleep(secs(1)).await?;
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(50)));
    assert_eq!(result(&ended), Err(NoResult::Cancelled));
    let [slept, ..] = &commands(ended.journal().unwrap())[..] else { panic!("nothing was asked for") };
    assert_eq!(slept, "start timer (seq 1)");
}

#[test]
fn a_run_that_was_asked_to_cancel_does_not_continue_as_new() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.shielded().sleep(secs(100)).await?;
        ctx.continue_as_new(&(n + 1))
    }
    let ended = run(world().workflow(&MAIN, code).cancel_at(secs(250)));
    assert_eq!((result(&ended), ended.journals.len()), (Err(NoResult::Cancelled), 3));
}

#[test]
fn an_activity_that_somebody_else_cancelled_fails_the_run() {
    use tidemill_core::workflow::*;
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        Ok(ctx.activity(&DOUBLE, n).await?)
    }
    let (mut replayer, _) = crate::replay::begun(code);
    let failure = ActivityFailure { message: String::new(), kind: FailureKind::Cancelled, attempts: 1 };
    let done = RunEvent::ActivityDone { seq: 1, result: ActivityResult::Failed(failure) };
    let commit = crate::replay::advance(&mut replayer, 3, done);
    let message = "activity `double` was cancelled".to_owned();
    assert_eq!(commit.end, Some(RunEnd::Failed { message }));
}
