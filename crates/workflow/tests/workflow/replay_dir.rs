//! Journals in files.

use std::fs;

use tidemill_workflow::testing::replay_dir;
use tidemill_workflow::{Ctx, Program, Programs, WorkflowError};

use super::*;

async fn code(ctx: Ctx, n: u64) -> Result<u64, WorkflowError> {
    Ok(ctx.activity(&DOUBLE, n).await?)
}

fn programs(program: Program) -> Programs {
    let mut programs = Programs::new();
    programs.add(program);
    programs
}

#[test]
fn exported_journals_are_replayed_against_the_code_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let journal = run(world().workflow(&MAIN, code)).journal().unwrap().clone();
    for name in ["old.json", "older.json"] {
        fs::write(directory.path().join(name), serde_json::to_string_pretty(&journal).unwrap()).unwrap();
    }
    let pattern = directory.path().join("*.json");
    assert_eq!(replay_dir(&pattern, &programs(Program::new(&MAIN, code))), Ok(2));
    let other = Program::new(&MAIN, async |ctx: Ctx, n| Ok(ctx.activity(&FAIL, n).await?));
    let failed = replay_dir(&pattern, &programs(other)).unwrap_err();
    assert_eq!(failed.files.len(), 2);
    let report = failed.to_string();
    assert!(
        report.starts_with("2 journals cannot be replayed\n") && report.contains("old.json: workflow `main`"),
        "{report}"
    );
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let pattern = directory.path().join("*.json");
    let nothing = replay_dir(&pattern, &Programs::new()).unwrap_err();
    assert!(nothing.to_string().contains("there is no such file"), "{nothing}");
    let journal = run(world().workflow(&MAIN, code)).journal().unwrap().clone();
    fs::write(directory.path().join("a.json"), serde_json::to_string(&journal).unwrap()).unwrap();
    fs::write(directory.path().join("b.json"), "{").unwrap();
    let failed = replay_dir(&pattern, &Programs::new()).unwrap_err().to_string();
    assert!(
        failed.contains("no program for workflow `main` 1.0.0") && failed.contains("not a journal: EOF"),
        "{failed}"
    );
}
