//! A chain of two steps that write to the user's table, one atomic and one staged, and a chain that
//! waits for two of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::transaction::Done;
use tidemill::{Backoff, Chain, Fail, Job, JobContext, Next, WorkerBuilder, postgres, secs, sqlite};

use crate::job::QUEUE;

/// The chain: takes an amount, then gives it.
pub struct Transfer;

impl Chain for Transfer {
    type Output = u64;
}

/// The first step, in one transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Take {
    /// The amount.
    pub amount: u64,
}

impl Job for Take {
    const KIND: &'static str = "take";
    const QUEUE: &'static str = QUEUE;
    const MAX_ATTEMPTS: u32 = 1_000;
    const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(20));
    const KEEP_RESULT: Option<Duration> = Some(secs(600));
    type Output = Next<Transfer>;
}

/// The second step: prepares in one transaction, works without one, completes in another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Give {
    /// The amount.
    pub amount: u64,
}

impl Job for Give {
    const KIND: &'static str = "give";
    const QUEUE: &'static str = QUEUE;
    const MAX_ATTEMPTS: u32 = 1_000;
    const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(20));
    type Output = Next<Transfer>;
}

/// Waits for transfers and adds them up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sum;

impl Job for Sum {
    const KIND: &'static str = "sum";
    const QUEUE: &'static str = QUEUE;
    const MAX_ATTEMPTS: u32 = 1_000;
    const KEEP_RESULT: Option<Duration> = Some(secs(600));
    type Output = u64;
}

/// Adds the handlers of all three to a worker on this store.
pub fn handlers(worker: WorkerBuilder, store: &str) -> WorkerBuilder {
    let worker = worker.handle(sum);
    if store.starts_with("sqlite:") {
        worker.handle(take_in_sqlite).handle(give_in_sqlite)
    } else if store.starts_with("postgres") {
        worker.handle(take_in_postgres).handle(give_in_postgres)
    } else {
        worker.handle(take).handle(give)
    }
}

async fn sum(_: Sum, cx: JobContext) -> Result<u64, Fail> {
    Ok(cx.blockers()?.outputs::<u64>()?.into_iter().sum())
}

async fn take(job: Take) -> Result<Next<Transfer>, Fail> {
    Ok(Next::job(Give { amount: job.amount }))
}

async fn give(job: Give) -> Result<Next<Transfer>, Fail> {
    slow_work().await;
    Ok(Next::done(job.amount))
}

/// Long enough that some workers are killed in the middle of it.
async fn slow_work() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..10))).await;
}

const WRITE_SQLITE: &str = "INSERT INTO user_steps (chain, step) VALUES (?1, ?2)";

async fn take_in_sqlite(job: Take, cx: JobContext) -> Result<Done<Next<Transfer>>, Fail> {
    let chain = cx.chain().to_string();
    sqlite::done(&cx, move |db| {
        db.execute(WRITE_SQLITE, [&chain, "take"])?;
        Ok(Next::job(Give { amount: job.amount }))
    })
}

async fn give_in_sqlite(job: Give, cx: JobContext) -> Result<Done<Next<Transfer>>, Fail> {
    let chain = cx.chain().to_string();
    let prepared = chain.clone();
    sqlite::transact(&cx, move |db| Ok(db.execute(WRITE_SQLITE, [&prepared, "prepare"])?)).await?;
    slow_work().await;
    sqlite::done(&cx, move |db| {
        db.execute(WRITE_SQLITE, [&chain, "give"])?;
        Ok(Next::done(job.amount))
    })
}

const WRITE_POSTGRES: &str = "INSERT INTO user_steps (chain, step) VALUES ($1, $2)";

async fn take_in_postgres(job: Take, cx: JobContext) -> Result<Done<Next<Transfer>>, Fail> {
    let tx = postgres::begin(&cx).await?;
    tx.execute(WRITE_POSTGRES, &[&cx.chain().as_str(), &"take"]).await?;
    Ok(tx.done(Next::job(Give { amount: job.amount })))
}

async fn give_in_postgres(job: Give, cx: JobContext) -> Result<Done<Next<Transfer>>, Fail> {
    let tx = postgres::begin(&cx).await?;
    tx.execute(WRITE_POSTGRES, &[&cx.chain().as_str(), &"prepare"]).await?;
    tx.commit().await?;
    slow_work().await;
    let tx = postgres::begin(&cx).await?;
    tx.execute(WRITE_POSTGRES, &[&cx.chain().as_str(), &"give"]).await?;
    Ok(tx.done(Next::done(job.amount)))
}
