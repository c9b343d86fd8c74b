//! Joins and spawned tasks, few and many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_workflow::{Ctx, WorkflowError, join};

use super::*;

#[test]
fn a_join_waits_for_all_and_keeps_their_order() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let slow = async {
            ctx.sleep(secs(10)).await?;
            Ok::<_, WorkflowError>(1)
        };
        let (a, b, c) = join!(slow, ctx.activity(&DOUBLE, n), async { 5 });
        Ok(a? * 100 + b? * 10 + c)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(125));
}

#[test]
fn branches_borrow_what_they_need() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let amounts = [1, 2, 3];
        let one = |amount: &u64| {
            let (ctx, amount) = (&ctx, *amount);
            async move { ctx.activity(&DOUBLE, amount).await }
        };
        let doubled = ctx.join_all(amounts.iter().map(one)).await;
        let doubled = doubled.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(doubled.iter().sum::<u64>() + amounts.len() as u64)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(15));
}

#[test]
fn joins_nest() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let row = |row: u64| {
            let ctx = &ctx;
            async move {
                let cells = ctx.join_all((0..10).map(|cell| ctx.activity(&DOUBLE, row * 10 + cell))).await;
                ctx.sleep(secs(row)).await?;
                cells.into_iter().try_fold(0, |sum, cell| Ok::<_, WorkflowError>(sum + cell?))
            }
        };
        let rows = ctx.join_all((0..10).map(row)).await;
        rows.into_iter().sum()
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(9_900));
}

#[test]
fn an_empty_join_is_complete() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let none: [tidemill_workflow::Sleep; 0] = [];
        Ok(ctx.join_all(none).await.len() as u64)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(0));
}

#[test]
fn tasks_go_on_beside_the_code_and_end_with_it() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let inside = ctx.clone();
        let doubled = ctx.spawn(async move { inside.activity(&DOUBLE, n).await });
        let inside = ctx.clone();
        ctx.spawn(async move { inside.sleep(secs(100)).await });
        ctx.sleep(secs(5)).await?;
        Ok(doubled.await?)
    }
    let ended = run(world().workflow(&MAIN, code));
    assert_eq!(result(&ended), Ok(2));
    assert_eq!(commands(ended.journal().unwrap()).last().unwrap(), "cancel timer (seq 3)");
}

#[test]
fn many_tasks_can_come_and_go() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let mut sum = 0;
        for round in 0..20 {
            let task = |n: u64| {
                let inside = ctx.clone();
                ctx.spawn(async move { inside.activity(&DOUBLE, n).await })
            };
            let handles: Vec<_> = (0..10).map(|n| task(round + n)).collect();
            for doubled in ctx.join_all(handles).await {
                sum += doubled?;
            }
        }
        Ok(sum)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code))), Ok(5_600));
}

#[test]
fn an_event_polls_the_one_branch_that_waits_for_it() {
    static POLLS: AtomicU64 = AtomicU64::new(0);
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let branch = |n: u64| {
            let mut doubling = ctx.activity(&DOUBLE, n);
            std::future::poll_fn(move |cx| {
                POLLS.fetch_add(1, Ordering::Relaxed);
                std::pin::Pin::new(&mut doubling).poll(cx)
            })
        };
        let doubled = ctx.join_all((0..10_000).map(branch)).await;
        doubled.into_iter().try_fold(0, |sum, n| Ok(sum + n?))
    }
    let ended = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap();
    assert_eq!(result(&ended), Ok(99_990_000));
    assert_eq!(
        POLLS.load(Ordering::Relaxed),
        20_000,
        "each branch is polled when it begins and when it ends"
    );
}

#[test]
fn a_run_in_memory_moves_between_threads() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let (a, b) = join!(ctx.activity(&DOUBLE, n), ctx.signals(&GO).recv());
        Ok(a? + b?)
    }
    let (replayer, _) = crate::replay::begun(code);
    let waits = std::thread::spawn(move || replayer.waits()).join().unwrap();
    let waits: Vec<_> = waits.iter().map(|wait| (wait.what.as_str(), wait.seq)).collect();
    assert_eq!(waits, [("activity `double`", Some(1)), ("signal `go`", None)]);
}

#[test]
fn a_run_that_is_dropped_leaves_nothing_behind() {
    const STATUS: tidemill_workflow::Query<(), u64> = tidemill_workflow::Query::new("status");
    let alive = Arc::new(());
    let held = alive.clone();
    let code = move |ctx: Ctx, n: u64| {
        let (in_query, in_task, here) = (held.clone(), held.clone(), held.clone());
        let (query_ctx, task_ctx) = (ctx.clone(), ctx.clone());
        async move {
            ctx.on_query(&STATUS, move |()| {
                (Arc::strong_count(&in_query) as u64) + u64::from(query_ctx.is_cancelled())
            });
            ctx.spawn(async move {
                let _here = in_task;
                task_ctx.sleep(secs(1)).await
            });
            ctx.signals(&GO).recv().await?;
            drop(here);
            Ok::<_, WorkflowError>(n)
        }
    };
    let (replayer, _) = crate::replay::begun(code);
    assert!(Arc::strong_count(&alive) > 3);
    drop(replayer);
    assert_eq!(Arc::strong_count(&alive), 1);
}
