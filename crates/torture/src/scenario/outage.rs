//! Every outage that the store can have, while a worker runs. Afterwards the worker makes progress
//! again, and meanwhile it does not spin.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::EventKind;

use crate::environment::{Environment, TIMEOUT};
use crate::job::TestJob;
use crate::ledger::{self, LedgerEvent};
use crate::test_store::TestStore;
use crate::worker_process::WorkerProcess;

/// A fault of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server is stopped for a while and continued.
    Paused,
    /// The server is killed and restarted on the same data.
    Restarted,
    /// All cached scripts are deleted.
    ScriptsFlushed,
    /// All data is deleted.
    Flushed,
    /// All connections are terminated.
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
    /// The faults that this store can have.
    pub fn for_store(store: &TestStore) -> &'static [Self] {
        match store {
            TestStore::Sqlite(_) => &[Self::Paused],
            TestStore::Redis(_) | TestStore::Cluster(_) => {
                &[Self::ScriptsFlushed, Self::Flushed, Self::Restarted, Self::Paused]
            }
            TestStore::Postgres(..) => &[Self::BackendsTerminated, Self::Restarted, Self::Paused],
        }
    }

    /// Injects the fault and waits until it is over.
    pub async fn inject(self, store: &TestStore) -> Result<()> {
        match self {
            Self::Paused => {
                let _outage = store.pause()?;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            Self::Restarted => store.restart()?,
            Self::ScriptsFlushed => run_on_all(store, &["SCRIPT", "FLUSH"])?,
            Self::Flushed => run_on_all(store, &["FLUSHALL"])?,
            Self::BackendsTerminated => terminate_backends(store).await?,
        }
        Ok(())
    }
}

/// The recovery from one fault.
#[derive(Debug)]
pub struct Recovery {
    /// The fault.
    pub fault: Fault,
    /// Time from the end of the fault until a job was done.
    pub after: Duration,
    /// Commands per second of the worker from the start of the fault until then.
    pub commands_per_s: f64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, after, commands_per_s } = self;
        write!(f, "{fault}: progress after {after:.2?}, {commands_per_s:.0} commands/s meanwhile")
    }
}

/// Tolerance beyond two seconds on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(10);

/// Far above the rate of retries in an outage, far below that of a loop without pauses.
const MAX_COMMANDS_PER_SECOND: f64 = 300.0;

const BACKLOG_JOBS: usize = 60;

/// Injects every fault of this store while one worker runs.
pub async fn run(environment: &Environment) -> Result<Vec<Recovery>> {
    let worker = environment.start_worker(&environment.worker_spec(4))?;
    let mut recoveries = Vec::new();
    for fault in Fault::for_store(environment.store()) {
        let recovery = recover(environment, &worker, *fault).await;
        recoveries.push(recovery.with_context(|| format!("fault of the store: {fault}"))?);
    }
    environment.wait_until_drained().await?;
    let report = worker.shut_down()?;
    ensure!(report.unsettled == 0, "the worker has {report:?}");
    environment.audit()?.assert_ended_once()?;
    environment.assert_empty().await?;
    Ok(recoveries)
}

async fn recover(environment: &Environment, worker: &WorkerProcess, fault: Fault) -> Result<Recovery> {
    let done = LedgerEvent::Settled(EventKind::Done);
    let before = environment.audit()?.count(done);
    let backlog = (0..BACKLOG_JOBS).map(|_| TestJob::finish_after(Duration::from_millis(50)));
    // No process dies here, but a fault may cost a job its lease.
    environment.client.jobs(backlog).max_attempts(100).enqueue().await?;
    let audit = environment.until("the worker to be busy", |audit| audit.count(done) > before).await?;
    let (sent, started) = (audit.commands(worker.pid()), Instant::now());

    fault.inject(environment.store()).await?;
    let over =
        if fault == Fault::Flushed { enqueue_until_accepted(environment).await? } else { ledger::now() };
    let again = |audit: &crate::audit::Audit| audit.first_after(done, over).is_some();
    let audit = environment.until("the worker to make progress", again).await?;
    let after = Duration::from_millis(audit.first_after(done, over).unwrap_or(over) - over);
    let commands = environment.audit()?.commands(worker.pid()).saturating_sub(sent);
    let commands_per_s = commands as f64 / started.elapsed().as_secs_f64().max(1.0);
    ensure!(after < Duration::from_secs(2) + TOLERANCE, "it took {after:?}");
    ensure!(commands_per_s < MAX_COMMANDS_PER_SECOND, "it sent {commands_per_s:.0} commands a second");
    enqueue_until_accepted(environment).await?;
    Ok(Recovery { fault, after, commands_per_s })
}

/// Enqueues a job as soon as the store accepts it, and returns the time. This shows that the
/// producer recovers, too.
async fn enqueue_until_accepted(environment: &Environment) -> Result<u64> {
    let started = Instant::now();
    loop {
        match environment.client.job(TestJob::FINISH).enqueue().await {
            Ok(_) => return Ok(ledger::now()),
            Err(error) if started.elapsed() > TIMEOUT => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn run_on_all(store: &TestStore, command: &[&str]) -> Result<()> {
    store.redis_servers().iter().try_for_each(|server| server.command(command).map(drop))?;
    Ok(())
}

async fn terminate_backends(store: &TestStore) -> Result<()> {
    let TestStore::Postgres(server, _) = store else { return Ok(()) };
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    client.simple_query(all).await?;
    drop(client);
    connection.await?.context("the connection that terminated the others")
}
