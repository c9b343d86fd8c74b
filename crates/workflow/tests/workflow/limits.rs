//! The limits of a journal's length and of a payload's size.

use tidemill_core::workflow::{RunEvent, UpdateResult};
use tidemill_workflow::{
    Activity, ActivityError, Advance, Blocked, ChildError, Ctx, Program, Replayer, Signal, SignalError,
    TooLarge, Update, Workflow, WorkflowError,
};

use super::*;

#[test]
fn a_run_learns_in_time_that_it_should_continue_as_new() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        while !ctx.should_continue_as_new() {
            ctx.sleep(secs(1)).await?;
        }
        if n < 3 { ctx.continue_as_new(&(n + 1)) } else { Ok(n) }
    }
    let ended = run(world().workflow(&MAIN, code).journal_limit(100));
    assert_eq!((result(&ended), ended.journals.len()), (Ok(3), 3));
    assert!(ended.journals.iter().all(|journal| (80..90).contains(&journal.entries.len())));
}

#[test]
fn a_run_that_does_not_is_blocked() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        loop {
            ctx.sleep(secs(1)).await?;
        }
    }
    let blocked = world().workflow(&MAIN, code).journal_limit(100).run(&MAIN, 1).unwrap_err();
    assert_eq!(blocked, Blocked::TooLong { length: 101, limit: 100 });
}

#[test]
fn numbers_go_on_when_a_run_continues_as_new() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.activity(&DOUBLE, n).await?;
        if n < 3 { ctx.continue_as_new(&(n + 1)) } else { Ok(n) }
    }
    let ended = run(world().workflow(&MAIN, code));
    let asked: Vec<_> = ended.journals.iter().flat_map(commands).collect();
    let expected = [1, 2, 3].map(|seq| format!("schedule activity `double` (seq {seq})"));
    assert_eq!(asked, expected);
}

const SIZE: Activity<String, u64> = Activity::new("size");
const SIZED: Workflow<String, u64> = Workflow::new("sized");
const TEXT: Signal<String> = Signal::new("text");
const ECHO: Update<u64, String> = Update::new("echo");
const TOO_LARGE: TooLarge = TooLarge { size: (1 << 20) + 1, limit: 1 << 20 };

/// JSON of this many bytes.
fn text(bytes: usize) -> String {
    "x".repeat(bytes - 2)
}

/// Tries every command with a payload above the limit, then with one at the limit.
async fn hands_on(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
    let large = || text((1 << 20) + 1);
    let activity = ctx.activity(&SIZE, large()).await.unwrap_err();
    assert_eq!(activity, ActivityError::TooLarge { activity: "size", too_large: TOO_LARGE });
    let child = ctx.child(&SIZED, large()).await.unwrap_err();
    assert_eq!(child, ChildError::TooLarge { workflow: "sized", too_large: TOO_LARGE });
    let other = ctx.run_id().child(9);
    let signal = ctx.signal(&other, &TEXT, &large()).await.unwrap_err();
    assert_eq!(signal, SignalError::TooLarge { signal: "text", too_large: TOO_LARGE });
    Ok(ctx.activity(&SIZE, text(1 << 20)).await?)
}

#[test]
fn what_is_too_large_fails_where_it_is_awaited_and_the_run_goes_on() {
    let ended = run(world()
        .activity(&SIZE, |text: String| Ok::<_, String>(text.len() as u64))
        .workflow(&MAIN, hands_on));
    assert_eq!(result(&ended), Ok((1 << 20) - 2));
    let asked = commands(&ended.journals[0]);
    assert_eq!(asked[0], "not hand on the input of activity `size`, of 1048577 bytes (seq 1)");
    assert_eq!(asked.last().unwrap(), "schedule activity `size` (seq 4)");
}

#[test]
fn a_replay_goes_the_way_the_run_went_whatever_is_allowed_by_then() {
    let ended = run(world().activity(&SIZE, |_: String| Ok::<_, String>(1)).workflow(&MAIN, hands_on));
    for limit in [1, 1 << 30] {
        let program = Program::new(&MAIN, hands_on);
        let mut replayer = Replayer::new(&program, "other".parse().unwrap()).payload_limit(limit);
        replayer.replay(ended.journals[0].entries.clone()).unwrap();
        assert!(replayer.end().is_some());
    }
}

#[test]
fn a_run_whose_result_is_too_large_is_blocked_until_more_is_allowed() {
    const LARGE: Workflow<u64, String> = Workflow::new("large");
    async fn code(ctx: Ctx, n: u64) -> Result<String, WorkflowError> {
        match n {
            0 => Ok(text((1 << 20) + 1)),
            _ => Err(ctx.continue_as_new::<u64, String>(&n).unwrap_err()),
        }
    }
    let program = Program::new(&LARGE, code);
    let begin = |n: u64| {
        let RunEvent::Started(mut event) = crate::replay::started() else { unreachable!() };
        (event.workflow, event.input) =
            ("large".parse().unwrap(), tidemill_core::workflow::Json::from_value(&n).unwrap());
        [tidemill_core::workflow::PositionedEvent {
            position: 1,
            at: tidemill_core::Timestamp(1),
            event: RunEvent::Started(event),
        }]
    };
    let replayer = |limit| Replayer::new(&program, "run".parse().unwrap()).payload_limit(limit);
    let blocked = replayer(1 << 20).advance(begin(0)).unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "the output of workflow `large` has 1048577 bytes, and at most 1048576 are allowed"
    );
    assert!(
        matches!(replayer(1 << 21).advance(begin(0)).unwrap(), Advance::Commit(commit) if commit.end.is_some())
    );
    let blocked = replayer(1).advance(begin(10)).unwrap_err();
    assert_eq!(blocked.to_string(), "what the run continues with has 2 bytes, and at most 1 are allowed");
}

#[test]
fn an_answer_that_is_too_large_is_refused() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.updates(&ECHO).recv().await?.reply(&text((1 << 20) + 1));
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code).update_at(secs(1), "u", &ECHO, &1));
    let message = "the answer has 1048577 bytes, and at most 1048576 are allowed".to_owned();
    assert_eq!(ended.updates["u"], UpdateResult::Failed { message });
}
