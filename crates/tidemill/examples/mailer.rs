//! Shared state, retries, a dead letter and a redrive. `cargo run -p tidemill --example mailer`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Backoff, DeadLetterFilter, Fail, Job, JobContext, State, Worker};

#[derive(Serialize, Deserialize)]
struct SendEmail {
    to: String,
}

impl Job for SendEmail {
    const KIND: &'static str = "send_email";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 3;
    const BACKOFF: Backoff = Backoff::constant(Duration::from_millis(50));
    type Output = ();
}

/// A mail server that is down until it is repaired.
#[derive(Clone, Default)]
struct Mailer {
    up: Arc<AtomicBool>,
}

async fn send_email(job: SendEmail, State(mailer): State<Mailer>, cx: JobContext) -> Result<(), Fail> {
    if !job.to.contains('@') {
        return Err(Fail::dead("bad_address", format!("{:?} is no address", job.to)));
    }
    if !mailer.up.load(Ordering::Relaxed) {
        println!("attempt {} of {}: the mail server is down", cx.attempt(), cx.max_attempts());
        return Err(Fail::retry("the mail server is down"));
    }
    println!("sent to {}", job.to);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = tidemill::connect("sqlite::memory:").await?;
    let mailer = Mailer::default();
    let worker = || Worker::builder(&client).state(mailer.clone()).handle(send_email).queue("mail", 8);

    client.job(SendEmail { to: "ada@example.com".into() }).enqueue().await?;
    client.job(SendEmail { to: "nobody".into() }).enqueue().await?;
    let report = worker().drain_scheduled().await?;
    println!("dead: {}", report.total.dead);

    mailer.up.store(true, Ordering::Relaxed);
    let repairable = DeadLetterFilter::all().reason("max_attempts_exceeded");
    let moved = client.dead_letters("mail").redrive(&repairable).await?;
    println!("redriven: {moved}");
    worker().drain().await?;
    Ok(())
}
