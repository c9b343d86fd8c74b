//! Workers that run chains with books to keep are killed again and again, in the middle of everything, and so is the
//! Redis that only wakes them. Every chain is closed once, and the books agree with that to the line.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidemill::postgres::tokio_postgres;
use tidemill::sqlite::rusqlite;
use tidemill::{Client, InTransaction, JobHandle};
use tidemill_testkit::servers::Redis;

use crate::books::{self, Books};
use crate::duty::Duty;
use crate::place::Place;
use crate::stage::{PATIENCE, Stage};
use crate::transfer::{Sum, Take};

/// How many workers there are at any time.
const CREW: usize = 2;

/// How long a worker lives, at most.
const LIFE: Duration = Duration::from_millis(1_500);

/// What came of it.
#[derive(Debug, Default)]
pub struct Reckoning {
    /// Pairs of chains that were started, each with one that waited for both.
    pub pairs: usize,
    /// Transactions that were rolled back.
    pub rolled_back: usize,
    /// Workers that were killed.
    pub killed: usize,
    /// How often the Redis that wakes them was killed.
    pub wakers_killed: usize,
    /// How often a step was prepared.
    pub prepared: usize,
}

impl fmt::Display for Reckoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, rolled_back, killed, wakers_killed, prepared } = self;
        write!(
            f,
            "{pairs} pairs of chains and {rolled_back} rolled back, {killed} workers and {wakers_killed} times \
             the waker killed, steps prepared {prepared} times: each chain closed once"
        )
    }
}

/// A pair of transfers, and the chain that waits for both.
struct Pair {
    transfers: [JobHandle<u64>; 2],
    sum: JobHandle<u64>,
    amount: u64,
}

/// Torments for `time`, then waits for the end of every chain and holds them against the books.
pub async fn run(stage: &Stage, seed: u64, time: Duration) -> Result<Reckoning> {
    let mut random = fastrand::Rng::with_seed(seed);
    let books = Books::of(stage.place());
    books.make().await?;
    let waker = matches!(stage.place(), Place::Postgres(..)).then(Redis::start).transpose()?;
    let duty = Duty { wake: waker.as_ref().map(Redis::url), transfers: true, ..stage.duty(8) };
    let client = duty.connect().await?;
    let (mut pairs, mut reckoning) = (Vec::new(), Reckoning::default());
    let mut crew: Vec<_> = (0..CREW).map(|_| stage.hire(&duty)).collect::<Result<_>>()?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        let pause = LIFE.mul_f64(random.f64() / CREW as f64);
        let until = Instant::now() + pause;
        while Instant::now() < until {
            let amount = random.u64(1..1_000);
            pairs.push(start(&client, &books, amount).await?);
            if let Some(rolled_back) = roll_back(&client, &books).await? {
                reckoning.rolled_back += rolled_back;
            }
        }
        let victim = random.usize(..CREW);
        std::mem::replace(&mut crew[victim], stage.hire(&duty)?).kill()?;
        reckoning.killed += 1;
        if let Some(waker) = waker.as_ref().filter(|_| random.u8(..4) == 0) {
            waker.restart()?;
            reckoning.wakers_killed += 1;
        }
    }
    reckoning.pairs = pairs.len();
    settle_up(stage, &pairs, &books, &mut reckoning).await?;
    for member in crew {
        member.dismiss()?;
    }
    delete(&client, pairs).await?;
    stage.assert_nothing_is_left().await?;
    Ok(reckoning)
}

/// Starts two transfers and what waits for them. In a database with transactions all three are made in one, and
/// nobody is told: as if this process had died between the commit and the wake.
async fn start(client: &Client, books: &Books, amount: u64) -> Result<Pair> {
    let take = || client.job(Take { amount });
    let transfers = match books {
        Books::Nowhere => [take().enqueue().await?, take().enqueue().await?],
        Books::Sqlite(path) => {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let made = [take().enqueue_in(&tx)?, take().enqueue_in(&tx)?];
            tx.commit()?;
            made.map(tidemill::sqlite::Promised::committed)
        }
        Books::Postgres(database) => {
            let mut pg = books::connect(database).await?;
            let mut tx = pg.transaction().await?;
            let made = [take().enqueue_in(&mut tx).await?, take().enqueue_in(&mut tx).await?];
            tx.commit().await?;
            let [told, untold] = made;
            // One is announced; the other has to be found by polling.
            [told.committed().await, client.handle(untold.id().clone())]
        }
    };
    let sum = client.job(Sum).after(&transfers[0]).after(&transfers[1]).enqueue().await?;
    Ok(Pair { transfers, sum, amount })
}

/// A transaction that is rolled back leaves nothing to run.
async fn roll_back(client: &Client, books: &Books) -> Result<Option<usize>> {
    let take = client.job(Take { amount: 1_000_000 });
    let id = match books {
        Books::Nowhere => return Ok(None),
        Books::Sqlite(path) => {
            let mut connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let id = take.enqueue_in(&tx)?.id().clone();
            tx.rollback()?;
            id
        }
        Books::Postgres(database) => {
            let mut pg: tokio_postgres::Client = books::connect(database).await?;
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
async fn settle_up(stage: &Stage, pairs: &[Pair], books: &Books, reckoning: &mut Reckoning) -> Result<()> {
    for pair in pairs {
        let sum = pair.sum.wait_for(PATIENCE).await;
        let sum = sum.with_context(|| format!("{} waits for {:?}", pair.sum.id(), pair.transfers))?;
        ensure!(sum == 2 * pair.amount, "{} gave {sum}, not {}", pair.sum.id(), 2 * pair.amount);
    }
    stage.until_drained().await?;
    if matches!(books, Books::Nowhere) {
        return Ok(());
    }
    let mut lines: HashMap<(String, String), usize> = HashMap::new();
    for line in books.read().await? {
        *lines.entry(line).or_default() += 1;
    }
    reckoning.prepared =
        lines.iter().filter(|((_, deed), _)| deed == "prepare").map(|(_, times)| times).sum();
    for transfer in pairs.iter().flat_map(|pair| &pair.transfers) {
        for deed in ["take", "give"] {
            let times = lines.remove(&(transfer.id().to_string(), deed.to_owned())).unwrap_or(0);
            ensure!(times == 1, "{} did {deed} {times} times", transfer.id());
        }
        let prepared = lines.remove(&(transfer.id().to_string(), "prepare".to_owned())).unwrap_or(0);
        ensure!(prepared >= 1, "{} gave without preparing", transfer.id());
    }
    ensure!(lines.is_empty(), "written by nobody: {lines:?}");
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
