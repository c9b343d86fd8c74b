//! Values that are the same in every replay.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::workflow::{Command, Entry, EntryContent, Json};
use tidemill_workflow::{Blocked, Ctx, WorkflowError};

use super::*;

#[test]
fn a_side_effect_happens_once_per_commit_and_is_remembered() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let value = ctx.side_effect(|| CALLS.fetch_add(1, Ordering::Relaxed) + 100);
        for _ in 0..5 {
            ctx.sleep(secs(1)).await?;
        }
        assert_eq!(value, 100);
        Ok(value)
    }
    let ended = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap();
    assert_eq!(result(&ended), Ok(100));
    let mut entries = ended.journal().unwrap().entries.clone();
    let mut replayer = crate::replay::replayer(code);
    replayer.replay(entries.clone()).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    change_first_command(
        &mut entries,
        Command::SideEffect { seq: 1, value: Json::from_value("text").unwrap() },
    );
    let blocked = crate::replay::replayer(code).replay(entries).unwrap_err();
    assert!(
        matches!(&blocked, Blocked::Unreadable { what, .. } if what == "the value of side effect 1"),
        "{blocked}"
    );
}

fn change_first_command(entries: &mut [Entry], command: Command) {
    let first = entries.iter_mut().find_map(|entry| match &mut entry.content {
        EntryContent::Commit(commit) => Some(commit),
        EntryContent::Event(_) => None,
    });
    first.unwrap().commands[0] = command;
}

#[test]
fn a_side_effect_may_not_ask_for_anything() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let inside = ctx.clone();
        ctx.side_effect(move || inside.set_attribute("customer", "ada"));
        Ok(n)
    }
    let blocked = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap_err();
    let expected = "workflow `main` asks for something inside a side effect: set attribute `customer`";
    assert_eq!(blocked.to_string(), expected);
}

#[test]
fn chance_falls_the_same_way_in_every_replay() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        let (first, second) = (ctx.uuid(), ctx.uuid());
        assert_ne!(first, second);
        assert_eq!(first.get_version_num(), 4);
        let number = ctx.random_range(10..20);
        assert!((10..20).contains(&number) && ctx.random_range(3..3) == 3);
        ctx.set_attribute("id", &first.to_string());
        ctx.sleep(secs(1)).await?;
        Ok(number)
    }
    let first = run(world().workflow(&MAIN, code));
    let second = run(world().workflow(&MAIN, code).crashing());
    assert_eq!(result(&first), result(&second));
    assert_eq!(first.attributes, second.attributes);
}

#[test]
fn attributes_are_set_in_order() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.set_attribute("state", "new");
        ctx.set_attribute("customer", &n);
        ctx.sleep(secs(1)).await?;
        ctx.set_attribute("state", "done");
        Ok(n)
    }
    let ended = run(world().workflow(&MAIN, code));
    let found: Vec<_> = ended.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found, ["customer=1", r#"state="done""#]);
}

#[test]
fn local_activities_run_inside_the_task() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        let begun = ctx.now();
        let (a, b) = tidemill_workflow::join!(ctx.local(&DOUBLE, n), ctx.local(&DOUBLE, 10));
        assert!(ctx.local(&FAIL, n).await.is_err());
        let sum = a? + b?;
        assert_eq!(begun, ctx.now());
        ctx.sleep(secs(1)).await?;
        Ok(sum + ctx.local(&DOUBLE, 100).await?)
    }
    let ended = run(world().workflow(&MAIN, code).crashing());
    assert_eq!(result(&ended), Ok(222));
    let asked = commands(ended.journal().unwrap());
    assert_eq!(asked[0], "local activity `double` (seq 1)");
    assert_eq!(asked.iter().filter(|command| command.starts_with("local")).count(), 4);
}
