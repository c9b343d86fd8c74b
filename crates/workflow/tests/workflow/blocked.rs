//! What blocks a run without failing it.

use tidemill_core::Timestamp;
use tidemill_core::workflow::{Commit, Entry, Json, RunEvent, StoredSignal};
use tidemill_workflow::{Blocked, Ctx, Program, Replayer, WorkflowError, diagnose};

use super::*;
use crate::replay::{replayer, started};

fn at(position: i64, event: RunEvent) -> Entry {
    Entry::event(Timestamp(position), event)
}

async fn waits(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
    Ok(ctx.signals(&GO).recv().await?)
}

fn commit(upto: u64) -> Entry {
    Entry::commit(Timestamp(9), Commit { upto, commands: Vec::new(), end: None, awaits: Vec::new() })
}

#[test]
fn a_panic_is_worth_trying_again() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        ctx.sleep(secs(1)).await?;
        panic!("the moon is full");
    }
    let blocked = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap_err();
    assert_eq!(blocked.to_string(), "workflow `main` panicked: the moon is full");
    assert!(blocked.is_worth_retrying());
}

#[test]
fn a_panic_is_found_in_the_code() {
    async fn code(_: Ctx, _: u64) -> Result<u64, WorkflowError> {
        panic!("the moon is full");
    }
    let program = Program::new(&MAIN, code);
    let run = "test".parse().unwrap();
    let entries = [at(1, started())];
    let mut replayer = Replayer::new(&program, "test".parse().unwrap());
    replayer.replay(entries.clone()).unwrap();
    let blocked = replayer.advance([]).unwrap_err();
    let blocked = diagnose(blocked, &program, &run, 0, &entries).to_string();
    assert!(blocked.contains("the moon is full at ") && blocked.contains("blocked.rs:"), "{blocked}");
}

#[test]
fn what_does_not_fit_its_type_blocks_and_is_named() {
    let text = |json: &str| Json::from_text(json).unwrap();
    let mut entries = vec![at(1, started())];
    let RunEvent::Started(mut badly) = started() else { unreachable!() };
    badly.input = text(r#""one""#);
    let blocked = replayed(&[at(1, RunEvent::Started(badly))]);
    assert!(
        blocked.to_string().starts_with("the input of workflow `main` does not fit its type: "),
        "{blocked}"
    );
    let signal = StoredSignal { name: "go".parse().unwrap(), payload: text("{}"), id: String::new() };
    entries.push(at(2, RunEvent::Signal(signal)));
    let blocked = replayed(&entries);
    assert!(
        blocked.to_string().starts_with("the payload of signal `go` does not fit its type: "),
        "{blocked}"
    );
}

/// Why a run that waits for a signal is blocked by these entries.
fn replayed(entries: &[Entry]) -> Blocked {
    let mut replayer = replayer(waits);
    match replayer.replay(entries.to_vec()) {
        Err(blocked) => blocked,
        Ok(()) => replayer.advance([]).unwrap_err(),
    }
}

#[test]
fn a_journal_that_makes_no_sense_says_where() {
    let cancel = RunEvent::CancelRequested { reason: None };
    for (entries, expected) in [
        (vec![at(1, cancel.clone())], "at entry 1: it begins with `cancel_requested`"),
        (vec![at(1, started()), at(2, started())], "at entry 2: the run starts a second time"),
        (
            vec![at(1, started()), commit(7)],
            "at entry 2: it consumed up to entry 7, which is no event before it",
        ),
        (
            vec![at(1, started()), commit(1), at(3, cancel), commit(2)],
            "at entry 4: it consumed up to entry 2",
        ),
        (vec![commit(1)], "at entry 1: it consumed up to entry 1"),
    ] {
        let blocked = replayed(&entries).to_string();
        assert!(blocked.contains(expected), "{blocked}");
    }
    let RunEvent::Started(mut other) = started() else { unreachable!() };
    other.workflow = "other".parse().unwrap();
    let blocked = replayed(&[at(1, RunEvent::Started(other))]).to_string();
    assert!(blocked.contains("it is one of workflow `other`, not of `main`"), "{blocked}");
}

#[test]
fn names_that_are_not_valid_block_where_they_are_used() {
    async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        Ok(ctx.activity(&DOUBLE, n).queue("a b").await?)
    }
    let blocked = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap_err();
    assert!(blocked.to_string().contains("activity `double` is called with does not fit"), "{blocked}");
    async fn patch(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
        ctx.patched("not a name");
        Ok(n)
    }
    let blocked = world().workflow(&MAIN, patch).run(&MAIN, 1).unwrap_err();
    assert!(blocked.to_string().starts_with("the id of a patch does not fit"), "{blocked}");
}

#[test]
fn a_run_continues_only_with_what_it_takes() {
    async fn code(ctx: Ctx, _: u64) -> Result<u64, WorkflowError> {
        ctx.continue_as_new(&"text")
    }
    let blocked = world().workflow(&MAIN, code).run(&MAIN, 1).unwrap_err();
    assert!(blocked.to_string().contains("`&str` is not what the workflow takes"), "{blocked}");
}
