//! Signals, updates, queries.

use std::sync::{Arc, Mutex};

use tidemill_core::workflow::UpdateResult;
use tidemill_workflow::{Ctx, Query, QueryError, Update, WorkflowError, select};

use super::*;

const STATUS: Query<String, String> = Query::new("status");
const ADD: Update<u64, u64> = Update::new("add");
const ADD_TEXT: Update<String, u64> = Update::new("add");

#[test]
fn signals_that_come_early_are_kept_in_order_however_many() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(100)).await?;
        let signals = ctx.signals(&GO);
        for expected in 0..1_000 {
            assert_eq!(signals.recv().await?, expected);
        }
        Ok(signals.try_recv().unwrap_or(7))
    }
    let world = (0..1_000).fold(world().workflow(&MAIN, code), |world, n| world.signal_at(secs(1), &GO, &n));
    assert_eq!(result(&run(world)), Ok(7));
}

#[test]
fn those_who_wait_for_a_signal_get_one_each_in_their_order() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let signals = ctx.signals(&GO);
        let got = ctx.join_all((0..3).map(|_| signals.recv())).await;
        let got = got.into_iter().collect::<Result<Vec<_>, _>>()?;
        assert_eq!(got, [10, 20, 30]);
        Ok(got.len() as u64)
    }
    let plan = [(3, 30), (1, 10), (2, 20)];
    let world =
        plan.iter().fold(world().workflow(&MAIN, code), |world, (at, n)| world.signal_at(secs(*at), &GO, n));
    assert_eq!(result(&run(world)), Ok(3));
}

#[test]
fn one_that_stopped_waiting_takes_no_signal_away() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        for _ in 0..3 {
            select! {
                _ = ctx.signals(&GO).recv() => unreachable!("it comes later"),
                _ = ctx.sleep(secs(1)) => {}
            }
        }
        Ok(ctx.signals(&GO).recv().await? + n)
    }
    assert_eq!(result(&run(world().workflow(&MAIN, code).signal_at(secs(10), &GO, &5))), Ok(6));
}

#[test]
fn unreceived_signals_are_carried_over_in_order() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(10)).await?;
        let received = ctx.signals(&GO).recv().await?;
        if ctx.continued() < 2 { ctx.continue_as_new(&(n * 10 + received)) } else { Ok(n * 10 + received) }
    }
    let world = (2..=4).fold(world().workflow(&MAIN, code), |world, n| world.signal_at(secs(1), &GO, &n));
    let ended = run(world);
    assert_eq!((result(&ended), ended.journals.len()), (Ok(1234), 3));
}

#[test]
fn unreceived_updates_are_carried_over_and_answered_by_who_receives_them() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(10)).await?;
        if ctx.continued() < 2 {
            return ctx.continue_as_new(&(n + 1));
        }
        let mut sum = n;
        for _ in 0..2 {
            let request = ctx.updates(&ADD).recv().await?;
            sum += request.input;
            request.reply(&sum);
        }
        Ok(sum)
    }
    let world = world().workflow(&MAIN, code).update_at(secs(1), "a", &ADD, &10);
    let ended = run(world.update_at(secs(2), "b", &ADD, &20).update_at(secs(3), "c", &ADD, &30));
    assert_eq!((result(&ended), ended.journals.len()), (Ok(33), 3));
    let answer = |n: u64| UpdateResult::Ok(tidemill_core::workflow::Json::from_value(&n).unwrap());
    assert_eq!((&ended.updates["a"], &ended.updates["b"]), (&answer(13), &answer(33)));
    assert!(matches!(&ended.updates["c"], UpdateResult::Failed { .. }), "nobody has received it");
}

#[test]
fn updates_are_answered_rejected_and_never_left_alone() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let updates = ctx.updates(&ADD);
        let mut sum = n;
        while sum < 10 {
            let request = updates.recv().await?;
            if request.input == 0 {
                request.reject("nothing to add");
                continue;
            }
            sum += request.input;
            request.reply(&sum);
        }
        drop(updates.recv().await?);
        ctx.sleep(secs(100)).await?;
        Ok(sum)
    }
    let world = world()
        .workflow(&MAIN, code)
        .update_at(secs(1), "a", &ADD, &4)
        .update_at(secs(2), "b", &ADD, &0)
        .update_at(secs(3), "c", &ADD_TEXT, &"five".to_owned())
        .update_at(secs(4), "d", &ADD, &5)
        .update_at(secs(5), "e", &ADD, &6)
        .update_at(secs(6), "f", &ADD, &7);
    let ended = run(world);
    assert_eq!(result(&ended), Ok(10));
    let answer = |id: &str| match &ended.updates[id] {
        UpdateResult::Ok(json) => json.to_string(),
        UpdateResult::Failed { message } => message.clone(),
    };
    assert_eq!([answer("a"), answer("b"), answer("d")], ["5", "nothing to add", "10"]);
    assert!(answer("c").starts_with("the payload does not fit: invalid type"), "{}", answer("c"));
    assert_eq!(answer("e"), "the run did not answer");
    assert_eq!(answer("f"), "the run ended before it looked at this");
}

#[test]
fn a_query_sees_the_run_and_does_not_change_it() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let phase = Arc::new(Mutex::new("begun"));
        let (shown, inside) = (phase.clone(), ctx.clone());
        ctx.on_query(&STATUS, move |question| {
            match question.as_str() {
                "spawn" => drop(inside.spawn(async {})),
                "random" => _ = inside.random(),
                "patch" => _ = inside.patched("new-way"),
                "panic" => panic!("no answer"),
                _ => {}
            }
            format!("{question} {}", shown.lock().unwrap())
        });
        ctx.sleep(secs(10)).await?;
        *phase.lock().unwrap() = "slept";
        ctx.sleep(secs(10)).await?;
        // The replay has no queries and must draw the same number.
        ctx.set_attribute("number", &ctx.random());
        Ok(n)
    }
    let ask = |world: TestWorld, at, question: &str| world.query_at(secs(at), &STATUS, &question.to_owned());
    let mut world = world().workflow(&MAIN, code);
    for (at, question) in
        [(5, "is"), (6, "spawn"), (7, "random"), (8, "patch"), (9, "panic"), (15, "is"), (50, "is")]
    {
        world = ask(world, at, question);
    }
    let ended = run(world);
    assert_eq!(result(&ended), Ok(1));
    let answers: Vec<_> = ended.answers.iter().map(|answer| format!("{answer:?}")).collect();
    assert_eq!(
        [&*answers[0], &answers[5], &answers[6]],
        [r#"Ok("is begun")"#, r#"Ok("is slept")"#, r#"Ok("is slept")"#]
    );
    for (answer, asked) in [(1, "a spawned task"), (2, "a random number"), (3, "patch `new-way`")] {
        let error = ended.answers[answer].as_ref().unwrap_err();
        assert_eq!(error, &QueryError::Changes { query: "status".into(), asked: asked.into() });
    }
    assert_eq!(ended.answers[4].as_ref().unwrap_err().to_string(), "query `status` panicked: no answer");
}

#[test]
fn a_query_nobody_answers_is_an_error() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(10)).await?;
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).query_at(secs(5), &STATUS, &String::new()));
    assert_eq!(ended.answers, [Err(QueryError::Unknown("status".into()))]);
}
