//! A service: workers that run until the process is asked to stop. `cargo run -p tidemill --example
//! service`, and Ctrl-C or `kill` to stop it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, Fail, Job, Worker, secs, shutdown_signal};

#[derive(Serialize, Deserialize)]
struct Fetch {
    url: String,
}

impl Job for Fetch {
    const KIND: &'static str = "fetch";
    const BACKOFF: Backoff = Backoff::exponential(secs(2), secs(60));
    type Output = ();
}

async fn fetch(job: Fetch) -> Result<(), Fail> {
    println!("fetching {}", job.url);
    tokio::time::sleep(secs(2)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let client = tidemill::connect(&url).await?;
    client.jobs((1..=20).map(|n| Fetch { url: format!("https://example.com/{n}") })).enqueue().await?;
    let worker = Worker::builder(&client).handle(fetch).queue("default", 2).shutdown_grace(secs(10));
    let report = worker.run_until(shutdown_signal()).await?;
    println!("{} done, {} left running", report.total.done, report.total.running);
    Ok(())
}
