//! Queries and updates.

use std::sync::{Arc, Mutex};

use tidemill_workflow::{Ctx, Query, QueryError, RunError, RunWorkflows, Update, WorkflowError};

use crate::world::{Background, GO, MAIN, World, ms, patiently, until};

const TOTAL: Query<(), u64> = Query::new("total");
const NOBODY: Query<(), u64> = Query::new("nobody");
const ADD: Update<u64, u64> = Update::new("add");

/// Adds the numbers it receives, up to 100.
async fn adder(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let total = Arc::new(Mutex::new(n));
    let seen = total.clone();
    ctx.on_query(&TOTAL, move |()| *seen.lock().unwrap());
    loop {
        let request = ctx.updates(&ADD).recv().await?;
        let now = *total.lock().unwrap() + request.input;
        if now > 1000 {
            request.reject("too much");
            continue;
        }
        *total.lock().unwrap() = now;
        request.reply(&now);
        if now >= 100 {
            return Ok(now);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_answers_updates_and_queries_warm_cold_and_closed() {
    let world = World::new().await;
    let worker = Background::run(world.worker().workflow(&MAIN, adder));
    let run = world.start().await;
    assert_eq!(patiently(run.update(&ADD, &4)).await.unwrap(), 5);
    assert_eq!(patiently(run.query(&TOTAL, &())).await.unwrap(), 5);
    worker.stop().await;
    let cold = Background::run(world.worker().workflow(&MAIN, adder));
    assert_eq!(patiently(run.query(&TOTAL, &())).await.unwrap(), 5);
    let refused = patiently(run.update(&ADD, &5000)).await.unwrap_err();
    assert!(matches!(&refused, RunError::Refused { message, .. } if message == "too much"), "{refused}");
    let unknown = patiently(run.query(&NOBODY, &())).await.unwrap_err();
    assert!(matches!(unknown, RunError::Query(QueryError::Unknown(_))), "{unknown}");
    assert_eq!(patiently(run.update(&ADD, &100)).await.unwrap(), 105);
    assert_eq!(patiently(run.wait()).await.unwrap(), 105);
    assert_eq!(patiently(run.query(&TOTAL, &())).await.unwrap(), 105);
    assert!(matches!(run.update(&ADD, &1).await, Err(RunError::Closed { .. })));
    cold.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_code_waits_for_is_asked_of_a_worker() {
    let world = World::new().await;
    let worker = Background::run(
        world.worker().workflow(&MAIN, async |ctx: Ctx, n: u64| Ok(n + ctx.signals(&GO).recv().await?)),
    );
    let run = world.start().await;
    let waits = until(async || {
        let waits = run.waits(std::time::Duration::from_secs(30)).await.unwrap();
        waits.into_iter().next()
    })
    .await;
    assert_eq!(waits.what, "signal `go`");
    worker.stop().await;
    let nobody = run.waits(ms(20)).await.unwrap_err();
    assert!(matches!(nobody, RunError::TimedOut { what: "answer", .. }), "{nobody}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_purged_with_its_queue_says_so() {
    let world = World::new().await;
    let run = world.start().await;
    let queue = world.info(run.id()).await.queue;
    let purge = until(async || {
        // The run's first task, and the query.
        let ready =
            world.store().list_queues().await.unwrap().into_iter().find(|info| info.queue == queue)?.ready;
        (ready == 2).then_some(())
    });
    let (asked, ()) = tokio::join!(patiently(run.query(&TOTAL, &())), async {
        purge.await;
        world.store().purge(&queue).await.unwrap();
    });
    let error = asked.unwrap_err();
    assert!(matches!(&error, RunError::Unanswered { why, .. } if why.contains("removed")), "{error}");
}
