//! The order example, killed with SIGKILL at every await point of the workflow, its activities and
//! its worker. At each point the worker of one order dies, and another worker finishes the order.

use std::fmt;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::{Either, select, try_join, try_join_all};
use tidemill::workflow::{EntryContent, Program, RunError, RunHandle, StartWorkflows};

use crate::environment::{Environment, TIMEOUT};
use crate::journals::{activities, assert_numbered, ended_once, ends, replays};
use crate::kill_points::{KillPoint, PlannedSignal};
use crate::ledger::LedgerEvent;
use crate::namespace::StoreNamespace;
use crate::order_workflow::example::{APPROVE, ORDER, Order, order};
use crate::worker_main::WorkerSpec;
use crate::worker_process::{ProcessEnd, WorkerProcess};

/// Interval of checks of a journal or a process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Each kill point, how often one order reaches it, and how often before the decision. An order has
/// four tasks and two activities. Its code awaits the charge, the decision and the last activity.
const KILL_POINTS: [(KillPoint, usize, usize); 8] = [
    (KillPoint::Claimed, 6, 3),
    (KillPoint::Waits, 3, 2),
    (KillPoint::Begins, 2, 1),
    (KillPoint::Ends, 2, 1),
    (KillPoint::Delivers, 2, 1),
    (KillPoint::Delivered, 2, 1),
    (KillPoint::Commits, 4, 2),
    (KillPoint::Committed, 4, 2),
];

/// The decision on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It is charged and shipped.
    Approved,
    /// It is charged and refunded.
    Cancelled,
}

/// The report of the scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrderReport {
    /// Workers that were killed.
    pub killed: usize,
    /// Effects that happened twice, under one idempotency key.
    pub repeated: usize,
}

impl fmt::Display for OrderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, repeated } = self;
        write!(
            f,
            "the order example killed at {killed} await points: all ended the same, {repeated} effects repeated"
        )
    }
}

/// Kills workers at all points for both decisions. Before the decision, one of them suffices.
pub async fn run(environment: &Environment) -> Result<OrderReport> {
    let approved = KILL_POINTS
        .map(|(point, times, _)| kill_at_each_time(environment, Decision::Approved, point, 1..=times));
    let cancelled = KILL_POINTS.map(|(point, times, same)| {
        kill_at_each_time(environment, Decision::Cancelled, point, same + 1..=times)
    });
    let (approved, cancelled) = try_join(try_join_all(approved), try_join_all(cancelled)).await?;
    let reports = [approved, cancelled].concat();
    let killed = reports.iter().map(|report| report.killed).sum();
    Ok(OrderReport { killed, repeated: reports.iter().map(|report| report.repeated).sum() })
}

/// Runs orders whose workers die when they reach `point` for each of these times, and one time
/// more, which no worker may reach.
async fn kill_at_each_time(
    environment: &Environment,
    decision: Decision,
    point: KillPoint,
    times: RangeInclusive<usize>,
) -> Result<OrderReport> {
    let namespace =
        StoreNamespace::open(environment, &format!("{decision:?}-{point}").to_lowercase()).await?;
    let mut report = OrderReport::default();
    for time in *times.start().. {
        let signal = PlannedSignal::KillAt(point, time);
        let outcome = run_killed_order(&namespace, decision, signal)
            .await
            .with_context(|| format!("{decision:?}, {signal:?}"))?;
        report.repeated += outcome.repeated;
        if !outcome.was_killed {
            ensure!(time > *times.end(), "{decision:?}: no worker reached {point} for time {time}");
            break;
        }
        report.killed += 1;
    }
    Ok(report)
}

/// The outcome of one order.
struct OrderOutcome {
    was_killed: bool,
    repeated: usize,
}

/// Runs one order whose worker dies.
async fn run_killed_order(
    namespace: &StoreNamespace,
    decision: Decision,
    signal: PlannedSignal,
) -> Result<OrderOutcome> {
    let spec = WorkerSpec { orders: true, lease_ms: 1_000, ..namespace.worker_spec() };
    let mut victim = namespace.start_worker(WorkerSpec { signal: Some(signal), ..spec.clone() }).await?;
    let (run, successor) = {
        let (drive, death) = (pin!(drive(namespace, decision)), pin!(wait_until_dead(&mut victim)));
        match select(drive, death).await {
            Either::Left((run, _)) => (run?, None),
            Either::Right(((), drive)) => {
                let successor = namespace.start_worker(spec).await?;
                (drive.await?, Some(successor))
            }
        }
    };
    let was_killed = matches!(victim.stop()?, ProcessEnd::AtKillPoint(_));
    successor.map(WorkerProcess::shut_down).transpose()?;
    Ok(OrderOutcome { was_killed, repeated: check(namespace, decision, &run).await? })
}

async fn wait_until_dead(worker: &mut WorkerProcess) {
    while !worker.has_ended() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Starts the order, sends the decision when it waits for one, and checks its result.
async fn drive(namespace: &StoreNamespace, decision: Decision) -> Result<RunHandle<String>> {
    let id = "order-7".to_owned();
    let run = namespace.client.workflow(&ORDER, Order { id, cents: 9_999 }).start().await?;
    wait_for_decision_point(&run).await?;
    match decision {
        Decision::Approved => run.signal(&APPROVE, &true).await?,
        Decision::Cancelled => run.cancel_with_reason("the customer thought better of it").await?,
    }
    let result = run.wait_for(TIMEOUT).await;
    let is_right = match (decision, &result) {
        (Decision::Approved, Ok(parcel)) => parcel == "parcel of order-7",
        (Decision::Cancelled, Err(RunError::Failed { message, .. })) => {
            message == "the order was not approved"
        }
        _ => false,
    };
    ensure!(is_right, "it ended with {result:?}");
    Ok(run)
}

/// Waits until the run has committed the result of the charge.
async fn wait_for_decision_point(run: &RunHandle<String>) -> Result<()> {
    let started = Instant::now();
    loop {
        let journal = run.journal().await?;
        let is_up_to_date =
            matches!(journal.entries.last(), Some(entry) if matches!(entry.content, EntryContent::Commit(_)));
        if is_up_to_date && ends(&journal).len() == 1 {
            return Ok(());
        }
        ensure!(started.elapsed() < TIMEOUT, "{} does not wait for a decision: {journal:?}", run.id());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Checks that the journal has everything once, and that each effect happened once or twice under
/// one key. Returns how many happened twice.
async fn check(namespace: &StoreNamespace, decision: Decision, run: &RunHandle<String>) -> Result<usize> {
    let journal = run.journal().await?;
    assert_numbered(&**namespace.client.store(), run.id()).await?;
    replays(Program::new(&ORDER, order), &journal)?;
    ended_once(&journal)?;
    let asked = activities(&journal);
    let expected = match decision {
        Decision::Approved => ["charge", "ship"],
        Decision::Cancelled => ["charge", "refund"],
    };
    ensure!(asked.values().eq(&expected), "it scheduled {asked:?}");
    ensure!(ends(&journal).len() == asked.len(), "not all of {asked:?} ended");

    let audit = namespace.take_audit()?;
    let effects = audit.per_job(LedgerEvent::Ended);
    ensure!(effects.len() == asked.len(), "effects under other keys: {effects:?}");
    for (seq, name) in asked {
        let times = effects.get(run.id().part(seq).as_str()).copied().unwrap_or(0);
        ensure!((1..=2).contains(&times), "{name} took effect {times} times");
    }
    namespace.assert_drained().await?;
    Ok(effects.values().filter(|times| **times == 2).count())
}
