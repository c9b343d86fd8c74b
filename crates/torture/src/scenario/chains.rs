//! Workers that run chains with user transactions are killed again and again, and so is the Redis
//! server that wakes them. Every chain closes once, and the user's table has exactly the matching
//! rows.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::postgres::tokio_postgres;
use tidemill::sqlite::rusqlite;
use tidemill::transaction::EnqueueIn;
use tidemill::{Client, JobHandle};
use tidemill_testkit::servers::Redis;

use crate::environment::{Environment, TIMEOUT};
use crate::test_store::TestStore;
use crate::transfer::{Sum, Take};
use crate::user_table::{self, UserTable};
use crate::worker_main::WorkerSpec;

/// Number of workers at any time.
const WORKERS: usize = 2;

/// Maximum lifetime of a worker.
const MAX_WORKER_LIFETIME: Duration = Duration::from_millis(1_500);

/// The report of the scenario.
#[derive(Debug, Default)]
pub struct ChainsReport {
    /// Pairs of chains, each with a chain that waits for both.
    pub pairs: usize,
    /// Transactions that were rolled back.
    pub rolled_back: usize,
    /// Workers that were killed.
    pub killed: usize,
    /// How often the Redis server for wake-ups was killed.
    pub wakers_killed: usize,
    /// How often a step was prepared.
    pub prepared: usize,
}

impl fmt::Display for ChainsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, rolled_back, killed, wakers_killed, prepared } = self;
        write!(
            f,
            "{pairs} pairs of chains and {rolled_back} rolled back, {killed} workers and {wakers_killed} times \
             the waker killed, steps prepared {prepared} times: each chain closed once"
        )
    }
}

/// A pair of transfers and the chain that waits for both.
struct Pair {
    transfers: [JobHandle<u64>; 2],
    sum: JobHandle<u64>,
    amount: u64,
}

/// Kills workers for `time`, then waits for every chain and compares them with the user's table.
pub async fn run(environment: &Environment, seed: u64, time: Duration) -> Result<ChainsReport> {
    let mut random = fastrand::Rng::with_seed(seed);
    let user_table = UserTable::new(environment.store());
    user_table.create().await?;
    let waker = matches!(environment.store(), TestStore::Postgres(..)).then(Redis::start).transpose()?;
    let spec =
        WorkerSpec { wake: waker.as_ref().map(Redis::url), transfers: true, ..environment.worker_spec(8) };
    let client = spec.connect().await?;
    let (mut pairs, mut report) = (Vec::new(), ChainsReport::default());
    let mut workers: Vec<_> = (0..WORKERS).map(|_| environment.start_worker(&spec)).collect::<Result<_>>()?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        let pause = MAX_WORKER_LIFETIME.mul_f64(random.f64() / WORKERS as f64);
        let until = Instant::now() + pause;
        while Instant::now() < until {
            let amount = random.u64(1..1_000);
            pairs.push(start(&client, &user_table, amount).await?);
            if let Some(rolled_back) = roll_back(&client, &user_table).await? {
                report.rolled_back += rolled_back;
            }
        }
        let victim = random.usize(..WORKERS);
        std::mem::replace(&mut workers[victim], environment.start_worker(&spec)?).kill()?;
        report.killed += 1;
        if let Some(waker) = waker.as_ref().filter(|_| random.u8(..4) == 0) {
            waker.restart()?;
            report.wakers_killed += 1;
        }
    }
    report.pairs = pairs.len();
    check(environment, &pairs, &user_table, &mut report).await?;
    for worker in workers {
        worker.shut_down()?;
    }
    delete(&client, pairs).await?;
    environment.assert_empty().await?;
    Ok(report)
}

/// Starts two transfers and the chain that waits for them. In a database with transactions, one
/// transaction enqueues both, and one wake-up is omitted: as if this process had died after the
/// commit.
async fn start(client: &Client, user_table: &UserTable, amount: u64) -> Result<Pair> {
    let take = || client.job(Take { amount });
    let transfers = match user_table {
        UserTable::Unsupported => [take().enqueue().await?, take().enqueue().await?],
        UserTable::Sqlite(path) => {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(TIMEOUT)?;
            let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let pending = [take().enqueue_in(&tx)?, take().enqueue_in(&tx)?];
            tx.commit()?;
            pending.map(tidemill::sqlite::AwaitingCommit::committed)
        }
        UserTable::Postgres(database) => {
            let mut pg = user_table::connect(database).await?;
            let mut tx = pg.transaction().await?;
            let pending = [take().enqueue_in(&mut tx).await?, take().enqueue_in(&mut tx).await?];
            tx.commit().await?;
            let [announced, unannounced] = pending;
            // One is announced; workers find the other by polling.
            [announced.committed().await, client.job_handle::<Take>(unannounced.id().clone())]
        }
    };
    let sum = client.job(Sum).after(&transfers[0]).after(&transfers[1]).enqueue().await?;
    Ok(Pair { transfers, sum, amount })
}

/// Checks that a rolled-back transaction leaves no job.
async fn roll_back(client: &Client, user_table: &UserTable) -> Result<Option<usize>> {
    let take = client.job(Take { amount: 1_000_000 });
    let id = match user_table {
        UserTable::Unsupported => return Ok(None),
        UserTable::Sqlite(path) => {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(TIMEOUT)?;
            let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let id = take.enqueue_in(&tx)?.id().clone();
            tx.rollback()?;
            id
        }
        UserTable::Postgres(database) => {
            let mut pg: tokio_postgres::Client = user_table::connect(database).await?;
            let mut tx = pg.transaction().await?;
            let id = take.enqueue_in(&mut tx).await?.id().clone();
            tx.rollback().await?;
            id
        }
    };
    ensure!(client.store().get_job(&id).await?.is_none(), "{id} was rolled back and is there");
    Ok(Some(1))
}

/// Waits for every chain and compares.
async fn check(
    environment: &Environment,
    pairs: &[Pair],
    user_table: &UserTable,
    report: &mut ChainsReport,
) -> Result<()> {
    for pair in pairs {
        let sum = pair.sum.wait_for(TIMEOUT).await;
        let sum = sum.with_context(|| format!("{} waits for {:?}", pair.sum.id(), pair.transfers))?;
        ensure!(sum == 2 * pair.amount, "{} gave {sum}, not {}", pair.sum.id(), 2 * pair.amount);
    }
    environment.wait_until_drained().await?;
    if matches!(user_table, UserTable::Unsupported) {
        return Ok(());
    }
    let mut rows: HashMap<(String, String), usize> = HashMap::new();
    for row in user_table.read().await? {
        *rows.entry(row).or_default() += 1;
    }
    report.prepared = rows.iter().filter(|((_, step), _)| step == "prepare").map(|(_, times)| times).sum();
    for transfer in pairs.iter().flat_map(|pair| &pair.transfers) {
        for step in ["take", "give"] {
            let times = rows.remove(&(transfer.id().to_string(), step.to_owned())).unwrap_or(0);
            ensure!(times == 1, "{} did {step} {times} times", transfer.id());
        }
        let prepared = rows.remove(&(transfer.id().to_string(), "prepare".to_owned())).unwrap_or(0);
        ensure!(prepared >= 1, "{} gave without preparing", transfer.id());
    }
    ensure!(rows.is_empty(), "rows of unknown chains: {rows:?}");
    Ok(())
}

async fn delete(client: &Client, pairs: Vec<Pair>) -> Result<()> {
    for Pair { transfers, sum, .. } in pairs {
        for handle in transfers.into_iter().chain([sum]) {
            client.delete(handle.id()).await?;
        }
    }
    Ok(())
}
