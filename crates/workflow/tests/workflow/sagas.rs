//! Sagas: compensations after a failure.

use std::sync::{Arc, Mutex};

use tidemill_workflow::testing::NoResult;
use tidemill_workflow::{Activity, Ctx, WorkflowError};

use super::*;

const STEP: Activity<String, ()> = Activity::new("step");

fn recording() -> (TestWorld, Arc<Mutex<Vec<String>>>) {
    let done = Arc::new(Mutex::new(Vec::new()));
    let record = done.clone();
    let step = move |step: String| {
        let refused = step.contains("stuck");
        record.lock().unwrap().push(step.clone());
        if refused { Err(format!("{step} is stuck")) } else { Ok(()) }
    };
    (world().activity(&STEP, step), done)
}

async fn book(ctx: &Ctx, n: u64) -> Result<u64, WorkflowError> {
    let mut saga = ctx.saga();
    let steps = async {
        for step in ["flight", "hotel", "car"] {
            ctx.activity(&STEP, format!("book {step}")).await?;
            saga.undo_with(&STEP, format!("cancel {step}"));
        }
        saga.undo(|ctx| async move { Ok(ctx.sleep(secs(1)).await?) });
        ctx.activity(&FAIL, n).await?;
        Ok(n)
    };
    let result = steps.await;
    saga.settle(result).await
}

#[test]
fn what_was_done_is_undone_in_reverse() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        book(&ctx, n).await
    }
    let (world, done) = recording();
    let ended = run(world.workflow(&MAIN, code));
    assert!(matches!(result(&ended), Err(NoResult::Failed(message)) if message.contains("`fail`")));
    let expected = ["book flight", "book hotel", "book car", "cancel car", "cancel hotel", "cancel flight"];
    assert_eq!(*done.lock().unwrap(), expected);
}

#[test]
fn undoing_is_shielded_from_cancellation() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let mut saga = ctx.saga();
        ctx.activity(&STEP, "book".to_owned()).await?;
        saga.undo_with(&STEP, "cancel".to_owned());
        let slept = ctx.sleep(secs(100)).await;
        saga.settle(slept.map(|()| n).map_err(WorkflowError::from)).await
    }
    let (world, done) = recording();
    let ended = run(world.workflow(&MAIN, code).cancel_at(secs(10)));
    assert_eq!(result(&ended), Err(NoResult::Cancelled));
    assert_eq!(*done.lock().unwrap(), ["book", "cancel"]);
}

#[test]
fn what_cannot_be_undone_is_said_and_keeps_nothing_else_from_being_tried() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let mut saga = ctx.saga();
        saga.undo_with(&STEP, "one".to_owned());
        saga.undo_with(&STEP, "stuck".to_owned());
        saga.settle(Err(WorkflowError::failed("too expensive"))).await
    }
    let (world, done) = recording();
    let ended = run(world.workflow(&MAIN, code));
    let error = result(&ended).unwrap_err().to_string();
    assert!(
        error.starts_with("the run failed: too expensive; 1 could not be undone: activity `step`"),
        "{error}"
    );
    assert_eq!(done.lock().unwrap().last().unwrap(), "one");
}
