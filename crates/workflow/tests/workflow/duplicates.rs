//! A repeated delivery never disturbs a run.

use tidemill_core::Timestamp;
use tidemill_core::workflow::{ActivityResult, ChildResult, Json, PositionedEvent, RunEvent};
use tidemill_workflow::{Advance, Ctx, WorkflowError};

use super::*;
use crate::replay::{advance, begun};

async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    let first = ctx.activity(&DOUBLE, n).await?;
    let second = ctx.activity(&DOUBLE, first).await?;
    Ok(first + second)
}

fn done(seq: u64, value: u64) -> RunEvent {
    RunEvent::ActivityDone { seq, result: ActivityResult::Ok(Json::from_value(&value).unwrap()) }
}

#[test]
fn the_same_entry_twice_is_consumed_once() {
    let (mut replayer, _) = begun(code);
    let arrived = PositionedEvent { position: 3, at: Timestamp(3), event: done(1, 2) };
    let Ok(Advance::Commit(commit)) = replayer.advance([arrived.clone(), arrived.clone()]) else { panic!() };
    assert_eq!((commit.upto, commit.commands.len()), (3, 1));
    let Ok(Advance::Commit(again)) = replayer.advance([arrived]) else { panic!() };
    assert_eq!((again.upto, again.commands.len()), (3, 0));
}

#[test]
fn a_second_answer_to_a_command_is_no_news() {
    let (mut replayer, _) = begun(code);
    advance(&mut replayer, 3, done(1, 2));
    for (position, event) in [
        (5, done(1, 99)),
        (6, RunEvent::TimerFired { seq: 2 }),
        (7, RunEvent::ChildDone { seq: 2, result: ChildResult::Cancelled }),
        (8, done(77, 5)),
    ] {
        let commit = advance(&mut replayer, position, event);
        assert!(commit.commands.is_empty() && commit.end.is_none() && commit.upto == position);
    }
    let commit = advance(&mut replayer, 9, done(2, 4));
    assert_eq!(format!("{:?}", commit.end), "Some(Completed(6))");
}

#[test]
fn what_comes_after_the_end_is_left_alone() {
    let (mut replayer, _) = begun(async |_: Ctx, n| Ok(n));
    let commit = advance(&mut replayer, 3, RunEvent::CancelRequested { reason: None });
    assert_eq!((commit.upto, commit.commands.len()), (1, 0));
    assert_eq!(format!("{:?}", commit.end), "Some(Completed(1))");
}
