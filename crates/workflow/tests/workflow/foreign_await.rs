//! Reports of foreign awaits.

use std::future::Future;

use tidemill_workflow::{
    Blocked, Ctx, Detection, ForeignAwait, Program, Replayer, WorkflowError, diagnose, select,
};

use super::*;
use crate::replay::started;

fn stranger<C, F>(code: C) -> (ForeignAwait, Option<String>)
where
    C: Fn(Ctx, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<u64, WorkflowError>> + Send + 'static,
{
    let program = Program::new(&MAIN, code);
    let run = "test".parse().unwrap();
    let entries = [tidemill_core::workflow::Entry::event(tidemill_core::Timestamp(1), started())];
    let mut replayer = Replayer::new(&program, "test".parse().unwrap());
    replayer.replay(entries.clone()).unwrap();
    let blocked = replayer.advance([]).unwrap_err();
    let Blocked::ForeignAwait(found) = blocked.clone() else { panic!("{blocked}") };
    let Blocked::ForeignAwait(placed) = diagnose(blocked, &program, &run, 0, &entries) else {
        unreachable!()
    };
    (*found, placed.location)
}

#[tokio::test]
async fn a_timer_of_the_runtime_is_found_with_its_place() {
    let (found, location) = stranger(async |_: Ctx, n| {
        tokio::time::sleep(secs(1)).await;
        Ok(n)
    });
    assert_eq!(found.detection, Detection::KeptWaker);
    assert!(
        found.to_string().contains("workflow `main` awaits something foreign after its start"),
        "{found}"
    );
    let location = location.unwrap();
    assert!(location.contains("no reactor running") && location.contains("foreign_await.rs:"), "{location}");
}

#[tokio::test]
async fn a_timer_beside_something_of_ours_is_found_too() {
    let (found, _) = stranger(async |ctx: Ctx, n| {
        select! {
            _ = ctx.sleep(secs(1)) => {},
            _ = tokio::time::sleep(secs(1)) => {},
        }
        Ok(n)
    });
    assert_eq!(found.detection, Detection::KeptWaker);
}

#[test]
fn a_channel_is_found() {
    let (found, _) = stranger(async |_: Ctx, n| {
        let (_sender, receiver) = tokio::sync::oneshot::channel::<u64>();
        Ok(receiver.await.unwrap_or(n))
    });
    assert_eq!(found.detection, Detection::KeptWaker);
}

#[test]
fn waiting_for_nothing_is_found() {
    let (found, location) = stranger(async |_: Ctx, _| std::future::pending().await);
    assert_eq!((found.detection, location), (Detection::NothingAwaited, None));
}

#[test]
fn waking_oneself_is_found() {
    let (found, _) = stranger(async |_: Ctx, n| {
        tokio::task::yield_now().await;
        Ok(n)
    });
    assert_eq!(found.detection, Detection::KeptWaker);
}

#[test]
fn a_task_that_waits_for_nothing_is_found_beside_one_that_does_not() {
    let (found, _) = stranger(async |ctx: Ctx, n| {
        ctx.spawn(std::future::pending::<()>());
        ctx.sleep(secs(1)).await?;
        Ok(n)
    });
    assert_eq!(found.detection, Detection::NothingAwaited);
}

#[test]
fn a_combinator_with_wakers_of_its_own_is_found() {
    let (found, _) = stranger(async |ctx: Ctx, _| {
        let many = (0..100).map(|n| ctx.activity(&DOUBLE, n));
        let done = futures_util::future::join_all(many).await;
        Ok(done.len() as u64)
    });
    assert_eq!(found.detection, Detection::Combinator);
}

#[test]
fn combinators_that_pass_the_waker_on_are_welcome() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let (a, b) = futures_util::future::join(ctx.activity(&DOUBLE, n), ctx.activity(&DOUBLE, n)).await;
        let few = futures_util::future::join_all((0..3).map(|n| ctx.activity(&DOUBLE, n))).await;
        Ok(a? + b? + few.len() as u64)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(7));
}

#[test]
fn a_report_says_after_what() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.activity(&DOUBLE, n).await?;
        std::future::pending().await
    }
    let blocked = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap_err().to_string();
    assert!(
        blocked.contains("after activity `double` (seq 1): nothing of Tidemill's would wake it"),
        "{blocked}"
    );
}
