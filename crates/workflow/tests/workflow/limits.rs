//! How long a journal may grow.

use tidemill_workflow::{Ctx, Halt, WorkflowError};

use super::*;

#[test]
fn a_run_learns_in_time_that_it_should_continue_as_new() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        while !ctx.should_continue_as_new() {
            ctx.sleep(secs(1)).await?;
        }
        if n < 3 { ctx.continue_as_new(&(n + 1)) } else { Ok(n) }
    }
    let ended = run(world().workflow(&MAIN, code).limit(100));
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
    let halt = world().workflow(&MAIN, code).limit(100).run(&MAIN, 1).unwrap_err();
    assert_eq!(halt, Halt::TooLong { length: 101, limit: 100 });
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
