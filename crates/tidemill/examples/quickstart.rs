//! One process: enqueues a job, runs it, and waits for its result. `cargo run -p tidemill --example
//! quickstart`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::{Fail, Job, Worker, secs};

#[derive(Serialize, Deserialize)]
struct Resize {
    image: String,
    width: u32,
}

impl Job for Resize {
    const KIND: &'static str = "resize";
    type Output = String;
}

async fn resize(job: Resize) -> Result<String, Fail> {
    Ok(format!("{}@{}px", job.image, job.width))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    let client = tidemill::connect(&url).await?;
    let worker = Worker::builder(&client).handle(resize).queue("default", 4).build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));

    let handle = client.job(Resize { image: "tide.png".into(), width: 640 }).enqueue().await?;
    println!("enqueued {}", handle.id());
    println!("result:  {}", handle.wait_for(secs(10)).await?);

    drop(stop);
    running.await??;
    Ok(())
}
