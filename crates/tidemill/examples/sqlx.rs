//! A job in a transaction of sqlx 0.9, on a PostgreSQL store. Use the version that Tidemill uses:
//! `tidemill::postgres::sqlx` is that crate.
//!
//! ```sh
//! cargo run -p tidemill --features sqlx --example sqlx -- postgres://localhost/app
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::postgres::sqlx::{self, PgPool};
use tidemill::transaction::EnqueueIn;
use tidemill::{Fail, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Confirm {
    order: i64,
}

impl Job for Confirm {
    const KIND: &'static str = "confirm";
    type Output = String;
}

async fn confirm(job: Confirm) -> Result<String, Fail> {
    Ok(format!("order {} is confirmed", job.order))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: sqlx postgres://…")?;
    let (client, pool) = (tidemill::connect(&url).await?, PgPool::connect(&url).await?);
    sqlx::query("CREATE TABLE IF NOT EXISTS example_orders (id bigserial PRIMARY KEY)")
        .execute(&pool)
        .await?;

    let mut tx = pool.begin().await?;
    let order: i64 = sqlx::query_scalar("INSERT INTO example_orders DEFAULT VALUES RETURNING id")
        .fetch_one(&mut *tx)
        .await?;
    let pending = client.job(Confirm { order }).enqueue_in(&mut *tx).await?;
    tx.commit().await?;
    let job = pending.committed().await;

    Worker::builder(&client).handle(confirm).queue("default", 1).drain().await?;
    println!("{}", job.wait().await?);
    Ok(())
}
