//! The order example, killed with SIGKILL at every await point: of the workflow, of its activities, and of the worker
//! that carries them. For each there is an order whose worker dies right there, and another worker that ends it.

use std::fmt;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::{Either, select, try_join, try_join_all};
use tidemill::workflow::{EntryContent, Program, RunError, RunHandle, StartWorkflows};

use crate::crew::{End, Member};
use crate::duty::Duty;
use crate::fate::{Fate, Point};
use crate::journals::{activities, assert_numbered, ended_once, ends, replays};
use crate::ledger::Step;
use crate::purchase::example::{APPROVE, ORDER, Order, order};
use crate::room::Room;
use crate::stage::{PATIENCE, Stage};

/// How often to look at a journal or a process.
const GLANCE: Duration = Duration::from_millis(20);

/// What a worker comes to, how often for one order, and how often of these before anybody has decided on it: four tasks,
/// two activities, and the code waits for the charge, the decision, and the last activity.
const POINTS: [(Point, usize, usize); 8] = [
    (Point::Claimed, 6, 3),
    (Point::Waits, 3, 2),
    (Point::Begins, 2, 1),
    (Point::Ends, 2, 1),
    (Point::Delivers, 2, 1),
    (Point::Delivered, 2, 1),
    (Point::Commits, 4, 2),
    (Point::Committed, 4, 2),
];

/// What becomes of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is charged and shipped.
    Approved,
    /// It is charged and refunded.
    Cancelled,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reckoning {
    /// Workers that were killed.
    pub killed: usize,
    /// Effects that were had twice, under one key.
    pub repeated: usize,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, repeated } = self;
        write!(
            f,
            "the order example killed at {killed} await points: all ended the same, {repeated} effects had again"
        )
    }
}

/// Kills orders of both ways everywhere; until they part, of one.
pub async fn run(stage: &Stage) -> Result<Reckoning> {
    let approved = POINTS.map(|(point, times, _)| one_by_one(stage, Way::Approved, point, 1..=times));
    let cancelled =
        POINTS.map(|(point, times, same)| one_by_one(stage, Way::Cancelled, point, same + 1..=times));
    let (approved, cancelled) = try_join(try_join_all(approved), try_join_all(cancelled)).await?;
    let lanes = [approved, cancelled].concat();
    let killed = lanes.iter().map(|lane| lane.killed).sum();
    Ok(Reckoning { killed, repeated: lanes.iter().map(|lane| lane.repeated).sum() })
}

/// Orders whose workers die where they come to `point` for one of these times, and on until one does not come there so
/// often any more.
async fn one_by_one(
    stage: &Stage,
    way: Way,
    point: Point,
    times: RangeInclusive<usize>,
) -> Result<Reckoning> {
    let room = Room::open(stage, &format!("{way:?}-{point}").to_lowercase()).await?;
    let mut reckoning = Reckoning::default();
    for time in *times.start().. {
        let fate = Fate::Killed(point, time);
        let scene = killed(&room, way, fate).await.with_context(|| format!("{way:?}, {fate:?}"))?;
        reckoning.repeated += scene.repeated;
        if !scene.was_killed {
            ensure!(time > *times.end(), "{way:?}: no worker came to where it {point} for time {time}");
            break;
        }
        reckoning.killed += 1;
    }
    Ok(reckoning)
}

/// What came of one order.
struct Scene {
    was_killed: bool,
    repeated: usize,
}

/// One order, whose worker dies.
async fn killed(room: &Room, way: Way, fate: Fate) -> Result<Scene> {
    let calm = Duty { orders: true, lease_ms: 1_000, ..room.duty() };
    let mut doomed = room.hire(Duty { fate: Some(fate), ..calm.clone() }).await?;
    let (run, successor) = {
        let (drive, death) = (pin!(drive(room, way)), pin!(until_dead(&mut doomed)));
        match select(drive, death).await {
            Either::Left((run, _)) => (run?, None),
            Either::Right(((), drive)) => {
                let successor = room.hire(calm).await?;
                (drive.await?, Some(successor))
            }
        }
    };
    let was_killed = matches!(doomed.end()?, End::Met(_));
    successor.map(Member::dismiss).transpose()?;
    Ok(Scene { was_killed, repeated: judge(room, way, &run).await? })
}

async fn until_dead(worker: &mut Member) {
    while !worker.has_ended() {
        tokio::time::sleep(GLANCE).await;
    }
}

/// Places the order, decides on it once it asks, and sees that it ends as it should.
async fn drive(room: &Room, way: Way) -> Result<RunHandle<String>> {
    let id = "order-7".to_owned();
    let run = room.client.workflow(&ORDER, Order { id, cents: 9_999 }).start().await?;
    until_it_asks(&run).await?;
    match way {
        Way::Approved => run.signal(&APPROVE, &true).await?,
        Way::Cancelled => run.cancel("the customer thought better of it").await?,
    }
    let result = run.result_within(PATIENCE).await;
    let is_right = match (way, &result) {
        (Way::Approved, Ok(parcel)) => parcel == "parcel of order-7",
        (Way::Cancelled, Err(RunError::Failed { message, .. })) => message == "the order was not approved",
        _ => false,
    };
    ensure!(is_right, "it ended with {result:?}");
    Ok(run)
}

/// It does when it has committed what it makes of the charge.
async fn until_it_asks(run: &RunHandle<String>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let journal = run.journal().await?;
        let is_up_to_date =
            matches!(journal.entries.last(), Some(entry) if matches!(entry.content, EntryContent::Commit(_)));
        if is_up_to_date && ends(&journal).len() == 1 {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{} waits for nobody: {journal:?}", run.id());
        tokio::time::sleep(GLANCE).await;
    }
}

/// In the journal everything is there once; in the world outside each effect was had, twice at most and then under one
/// key. Returns how many were had twice.
async fn judge(room: &Room, way: Way, run: &RunHandle<String>) -> Result<usize> {
    let journal = run.journal().await?;
    assert_numbered(&**room.client.store(), run.id()).await?;
    replays(Program::new(&ORDER, order), &journal)?;
    ended_once(&journal)?;
    let asked = activities(&journal);
    let expected = match way {
        Way::Approved => ["charge", "ship"],
        Way::Cancelled => ["charge", "refund"],
    };
    ensure!(asked.values().eq(&expected), "it asked for {asked:?}");
    ensure!(ends(&journal).len() == asked.len(), "not all of {asked:?} ended");

    let audit = room.take_ledger()?;
    let effects = audit.per_job(Step::Ended);
    ensure!(effects.len() == asked.len(), "effects under other keys: {effects:?}");
    for (seq, name) in asked {
        let times = effects.get(run.id().part(seq).as_str()).copied().unwrap_or(0);
        ensure!((1..=2).contains(&times), "{name} took effect {times} times");
    }
    room.assert_drained().await?;
    Ok(effects.values().filter(|times| **times == 2).count())
}
