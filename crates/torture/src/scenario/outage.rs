//! The store goes away while a worker runs, in every way it can. When it is back, the worker makes progress
//! again, and meanwhile it does not spin.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::EventKind;

use crate::act::Act;
use crate::crew::Member;
use crate::ledger::{self, Step};
use crate::place::Place;
use crate::stage::{PATIENCE, Stage};

/// What happens to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is stopped for a while and goes on.
    Paused,
    /// It is killed and comes back on the same data.
    Restarted,
    /// It forgets every script.
    ScriptsFlushed,
    /// It forgets everything.
    Flushed,
    /// Every connection is ended.
    BackendsTerminated,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Paused => "paused for 3 s",
            Self::Restarted => "restarted",
            Self::ScriptsFlushed => "SCRIPT FLUSH",
            Self::Flushed => "FLUSHALL",
            Self::BackendsTerminated => "backends terminated",
        })
    }
}

impl Fault {
    /// What can happen to this store.
    pub fn of(place: &Place) -> &'static [Self] {
        match place {
            Place::Sqlite(_) => &[Self::Paused],
            Place::Redis(_) | Place::Cluster(_) => {
                &[Self::ScriptsFlushed, Self::Flushed, Self::Restarted, Self::Paused]
            }
            Place::Postgres(..) => &[Self::BackendsTerminated, Self::Restarted, Self::Paused],
        }
    }

    /// Lets it happen, and waits until it is over.
    pub async fn strike(self, place: &Place) -> Result<()> {
        match self {
            Self::Paused => {
                let _absence = place.pause()?;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            Self::Restarted => place.restart()?,
            Self::ScriptsFlushed => tell_all(place, &["SCRIPT", "FLUSH"])?,
            Self::Flushed => tell_all(place, &["FLUSHALL"])?,
            Self::BackendsTerminated => terminate_backends(place).await?,
        }
        Ok(())
    }
}

/// What came of one fault.
#[derive(Debug)]
pub struct Recovery {
    /// Which.
    pub fault: Fault,
    /// How long after it was over a job was done again.
    pub after: Duration,
    /// How many commands a second the worker sent from the fault's begin until then.
    pub commands_per_s: f64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, after, commands_per_s } = self;
        write!(f, "{fault}: progress after {after:.2?}, {commands_per_s:.0} commands/s meanwhile")
    }
}

/// How much later than two seconds a busy machine may be.
const TOLERANCE: Duration = Duration::from_secs(10);

/// Far above what the parts of a worker try in an outage, far below what a loop without pauses does.
const NO_HOT_LOOP: f64 = 300.0;

const BACKLOG: usize = 60;

/// Lets every fault that this store can have happen to one worker.
pub async fn run(stage: &Stage) -> Result<Vec<Recovery>> {
    let worker = stage.hire(&stage.duty(4))?;
    let mut recoveries = Vec::new();
    for fault in Fault::of(stage.place()) {
        let recovery = recover(stage, &worker, *fault).await;
        recoveries.push(recovery.with_context(|| format!("the store was hit: {fault}"))?);
    }
    stage.until_drained().await?;
    let account = worker.dismiss()?;
    ensure!(account.unsettled == 0, "the worker has {account:?}");
    stage.audit()?.assert_ended_once()?;
    stage.assert_nothing_is_left().await?;
    Ok(recoveries)
}

async fn recover(stage: &Stage, worker: &Member, fault: Fault) -> Result<Recovery> {
    let done = Step::Settled(EventKind::Done);
    let before = stage.audit()?.count(done);
    let backlog = (0..BACKLOG).map(|_| Act::lasting(Duration::from_millis(50)));
    // Nobody dies here, but a fault may cost a job its lease.
    stage.client.jobs(backlog).max_attempts(100).enqueue().await?;
    let audit = stage.until("the worker to be busy", |audit| audit.count(done) > before).await?;
    let (sent, begun) = (audit.commands(worker.pid()), Instant::now());

    fault.strike(stage.place()).await?;
    let over = if fault == Fault::Flushed { enqueue_somehow(stage).await? } else { ledger::now() };
    let again = |audit: &crate::audit::Audit| audit.first_after(done, over).is_some();
    let audit = stage.until("the worker to make progress", again).await?;
    let after = Duration::from_millis(audit.first_after(done, over).unwrap_or(over) - over);
    let commands = stage.audit()?.commands(worker.pid()).saturating_sub(sent);
    let commands_per_s = commands as f64 / begun.elapsed().as_secs_f64().max(1.0);
    ensure!(after < Duration::from_secs(2) + TOLERANCE, "it took {after:?}");
    ensure!(commands_per_s < NO_HOT_LOOP, "it sent {commands_per_s:.0} commands a second");
    enqueue_somehow(stage).await?;
    Ok(Recovery { fault, after, commands_per_s })
}

/// Makes a job as soon as the store takes it; returns when that was. It shows that the producer recovers too.
async fn enqueue_somehow(stage: &Stage) -> Result<u64> {
    let begun = Instant::now();
    loop {
        match stage.client.job(Act::INNOCENT).enqueue().await {
            Ok(_) => return Ok(ledger::now()),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn tell_all(place: &Place, command: &[&str]) -> Result<()> {
    place.redis_servers().iter().try_for_each(|server| server.command(command).map(drop))?;
    Ok(())
}

async fn terminate_backends(place: &Place) -> Result<()> {
    let Place::Postgres(server, _) = place else { return Ok(()) };
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    client.simple_query(all).await?;
    drop(client);
    connection.await?.context("the connection that ended the others")
}
