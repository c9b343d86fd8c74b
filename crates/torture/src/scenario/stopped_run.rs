//! Two workers, one run. One is stopped with SIGSTOP in the middle of the run's task until the other has done the task;
//! then it goes on, and its commit is refused. Left alone with the run, it goes on from what the other wrote.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::workflow::{Command, Journal, Program, RunHandle, StartWorkflows};

use crate::crew::Member;
use crate::duty::{Account, Duty};
use crate::fate::{Fate, Point};
use crate::journals::{assert_numbered, commands, commits, ended_once, replays};
use crate::ledger::Step as Note;
use crate::program::{self, Input, NUMBER, PROGRAM, Step};
use crate::stage::{PATIENCE, Stage};

/// How often to look at the journal.
const GLANCE: Duration = Duration::from_millis(20);

/// Where it is stopped: while the task runs, and when all it has to do is to say so.
pub const POINTS: [Point; 2] = [Point::Begins, Point::Commits];

/// Returns how many commits were refused.
pub async fn run(stage: &Stage) -> Result<u64> {
    let mut refused = 0;
    for point in POINTS {
        refused += stopped_at(stage, point).await.with_context(|| format!("stopped where it {point}"))?;
    }
    Ok(refused)
}

async fn stopped_at(stage: &Stage, point: Point) -> Result<u64> {
    let steps = vec![Step::Local(1), Step::Receive, Step::Work(2), Step::Local(3)];
    let expected = program::oracle(&steps);
    stage.close_gate()?;
    let noted = stage.audit()?.count(Note::Started);
    let run = stage.client.workflow(&PROGRAM, Input { steps, so_far: Vec::new() }).start().await?;
    let mut sleeper =
        stage.hire(&Duty { programs: true, fate: Some(Fate::Stopped(point)), ..stage.gated_duty(4) })?;
    sleeper.await_fate()?;
    while stage.place().is_held_up()? {
        sleeper.go_on()?;
    }
    let successor = stage.hire(&Duty { programs: true, ..stage.duty(4) })?;
    let taken_over = first_commit(&run).await?;

    stage.open_gate()?;
    let late = come_back(sleeper, successor, &run).await?;
    // A claim that waits on Redis is given the task again while its worker stands still, and then that lease passes, too.
    ensure!((1..=2).contains(&late.lost), "the sleeper has {late:?}");
    let result = run.result().await?;
    ensure!(result == expected, "{result:?}, not {expected:?}");
    let journal = run.journal().await?;
    let kept = journal.entries.starts_with(&taken_over.entries);
    ensure!(kept, "the late commit shows: {taken_over:?} became {journal:?}");
    judge(stage, &journal).await?;
    // The first was run by both, and the two others by the one that was left.
    let begun = (stage.audit()?.count(Note::Started) - noted) as u64;
    ensure!((4..=3 + late.lost).contains(&begun), "{begun} activities were begun, {late:?}");
    Ok(late.lost)
}

/// Lets the sleeper go on, and takes the other away: what comes after the signal is the sleeper's alone.
async fn come_back(sleeper: Member, successor: Member, run: &RunHandle<Vec<i64>>) -> Result<Account> {
    sleeper.go_on()?;
    let right = successor.dismiss()?;
    ensure!((right.done, right.lost) == (1, 0), "the successor has {right:?}");
    run.signal(&NUMBER, &0).await?;
    run.result_within(PATIENCE).await?;
    let late = sleeper.dismiss()?;
    // Two tasks and an activity.
    ensure!(late.done == 3, "the sleeper has {late:?}");
    Ok(late)
}

/// The journal as soon as there is a commit in it.
async fn first_commit(run: &RunHandle<Vec<i64>>) -> Result<Journal> {
    let begun = Instant::now();
    loop {
        let journal = run.journal().await?;
        if commits(&journal) > 0 {
            return Ok(journal);
        }
        ensure!(begun.elapsed() < PATIENCE, "nobody has taken {} over", run.id());
        tokio::time::sleep(GLANCE).await;
    }
}

async fn judge(stage: &Stage, journal: &Journal) -> Result<()> {
    assert_numbered(&**stage.client.store(), &journal.run).await?;
    replays(Program::new(&PROGRAM, program::interpret), journal)?;
    ensure!(commits(journal) == 3, "{} has {} commits", journal.run, commits(journal));
    let locals = commands(journal).filter(|command| matches!(command, Command::LocalActivity { .. })).count();
    let activities = ended_once(journal)?;
    ensure!((locals, activities) == (2, 1), "{locals} local activities, {activities} others in {journal:?}");
    Ok(())
}
