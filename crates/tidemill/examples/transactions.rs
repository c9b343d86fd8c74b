//! Jobs in the transactions of your own SQLite file: enqueued with a row, and ended with a row.
//! `cargo run -p tidemill --example transactions`
//!
//! The same works on PostgreSQL, with tokio-postgres or with sqlx: see the example `sqlx`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::sqlite::rusqlite::Connection;
use tidemill::transaction::{Done, EnqueueIn};
use tidemill::{Fail, Job, JobContext, Worker, sqlite};

#[derive(Serialize, Deserialize)]
struct Deposit {
    account: i64,
    amount: i64,
}

impl Job for Deposit {
    const KIND: &'static str = "deposit";
    type Output = i64;
}

/// The balance changes and the job ends in one transaction: both or neither.
async fn deposit(job: Deposit, cx: JobContext) -> Result<Done<i64>, Fail> {
    sqlite::done(&cx, move |db| {
        let update = "UPDATE accounts SET balance = balance + ?2 WHERE id = ?1 RETURNING balance";
        Ok(db.query_row(update, [job.account, job.amount], |row| row.get(0))?)
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join(format!("tidemill-example-{}.db", std::process::id()));
    let client = tidemill::connect(&format!("sqlite:{}", file.display())).await?;
    let mut db = Connection::open(&file)?;
    db.execute_batch("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")?;

    // The account and the job that fills it exist together, or not at all.
    let tx = db.transaction()?;
    tx.execute("INSERT INTO accounts VALUES (1, 0)", [])?;
    let pending = client.job(Deposit { account: 1, amount: 50 }).enqueue_in(&tx)?;
    tx.commit()?;
    let job = pending.committed();

    Worker::builder(&client).handle(deposit).queue("default", 1).drain().await?;
    println!("balance: {}", job.wait().await?);
    drop((db, client));
    std::fs::remove_file(&file)?;
    Ok(())
}
