//! Children: started, awaited, cancelled, abandoned, signalled.

use tidemill_workflow::testing::NoResult;
use tidemill_workflow::{ChildError, Ctx, ParentClose, WorkflowError, select};

use super::*;

const CHILD: Workflow<u64, u64> = Workflow::new("child");
const UNKNOWN: Workflow<u64, u64> = Workflow::new("unknown");

async fn child(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    match n {
        0 => Err(WorkflowError::failed("nothing to do")),
        n => Ok(ctx.activity(&DOUBLE, n).await?),
    }
}

async fn patient(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    Ok(ctx.signals(&GO).recv().await? + n)
}

#[test]
fn a_child_gives_its_result_or_says_how_it_failed() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let error = ctx.child(&CHILD, 0).await.unwrap_err();
        assert_eq!(error.to_string(), "child workflow `child` failed: nothing to do");
        let error = ctx.child(&UNKNOWN, 0).await.unwrap_err();
        assert!(error.to_string().contains("has no workflow `unknown` 1.0.0"), "{error}");
        Ok(ctx.child(&CHILD, n).await?)
    }
    let ended = run(world().workflow(&MAIN, code).workflow(&CHILD, child));
    assert_eq!(result(&ended), Ok(2));
    let runs: Vec<_> = ended.journals.iter().map(|journal| journal.run.to_string()).collect();
    assert_eq!(runs, ["test", "test!1", "test!3"]);
}

#[test]
fn a_child_that_is_started_has_an_id_and_can_be_signalled() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let child = ctx.child(&CHILD, n).id("the-child".parse()?).start().await?;
        assert_eq!(child.run_id().as_str(), "the-child");
        ctx.signal(child.run_id(), &GO, &10).await?;
        Ok(child.await?)
    }
    let ended = run(world().workflow(&MAIN, code).workflow(&CHILD, patient));
    assert_eq!(result(&ended), Ok(11));
}

#[test]
fn a_second_child_of_the_same_id_is_refused() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let _first = ctx.child(&CHILD, n).id("twin".parse()?).start().await?;
        let second = ctx.child(&CHILD, n).id("twin".parse()?).start().await;
        let Err(ChildError::Failed { message, .. }) = second else { panic!("it was started twice") };
        assert_eq!(message, "run `twin` exists already");
        Ok(n)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code).workflow(&CHILD, patient))), Ok(1));
}

#[test]
fn a_signal_to_nobody_is_an_error() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let error = ctx.signal(&"nobody".parse()?, &GO, &n).await.unwrap_err();
        let expected = "signal `go` was not delivered: run `nobody` is closed or does not exist";
        assert_eq!(error.to_string(), expected);
        Ok(n)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(1));
}

#[test]
fn a_child_nobody_waits_for_any_more_is_asked_to_cancel() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        select! {
            _ = ctx.child(&CHILD, n) => {},
            _ = ctx.sleep(secs(5)) => {},
        }
        ctx.sleep(secs(5)).await?;
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).workflow(&CHILD, patient));
    assert_eq!(result(&ended), Ok(1));
    assert!(commands(&ended.journals[0]).contains(&"cancel child (seq 1)".to_owned()));
    assert!(format!("{:?}", ended.journals[1].entries.last()).contains("Some(Cancelled)"));
}

#[test]
fn a_cancelled_parent_cancels_its_child() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        Ok(ctx.child(&CHILD, n).await?)
    }
    let ended = run(world().workflow(&MAIN, code).workflow(&CHILD, patient).cancel_at(secs(5)));
    assert_eq!(result(&ended), Err(NoResult::Cancelled));
    assert!(commands(&ended.journals[0]).contains(&"cancel child (seq 1)".to_owned()));
}

#[test]
fn what_becomes_of_an_orphan_is_said_when_it_is_started() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        for policy in [ParentClose::Terminate, ParentClose::Cancel] {
            let child = ctx.child(&CHILD, n).parent_close(policy).start().await?;
            // The handle is dropped only when the run ends.
            ctx.spawn(child);
        }
        ctx.child(&CHILD, n).detach().await?;
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).workflow(&CHILD, patient));
    assert_eq!(result(&ended), Ok(1));
    assert!(!commands(&ended.journals[0]).iter().any(|command| command.starts_with("cancel")));
    let cancelled =
        ended.journals[1..].iter().filter(|journal| format!("{journal:?}").contains("Some(Cancelled)"));
    assert_eq!(cancelled.map(|journal| journal.run.to_string()).collect::<Vec<_>>(), ["test!2"]);
}
