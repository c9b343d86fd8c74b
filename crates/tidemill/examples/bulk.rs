//! Bulk enqueue of small at-most-once jobs on any store. `cargo run -p tidemill --release --example
//! bulk -- URL`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tidemill::{Fail, Guarantee, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Ping {
    n: u32,
}

impl Job for Ping {
    const KIND: &'static str = "ping";
    const QUEUE: &'static str = "pings";
    const GUARANTEE: Guarantee = Guarantee::AtMostOnce;
    type Output = ();
}

async fn ping(_: Ping) -> Result<(), Fail> {
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let client = tidemill::connect(&url).await?;
    let begun = Instant::now();
    let ids = client.jobs((0..50_000).map(|n| Ping { n })).enqueue().await?;
    println!("enqueued {} jobs in {:.2?}", ids.len(), begun.elapsed());
    let begun = Instant::now();
    let report = Worker::builder(&client).handle(ping).at_most_once("pings", 256).drain().await?;
    println!("ran {} jobs in {:.2?}", report.total.done, begun.elapsed());
    Ok(())
}
