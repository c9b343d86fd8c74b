//! Pausing a queue, reading its counts, and cancelling waiting and running jobs. `cargo run -p
//! tidemill --example cancel_and_pause`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use tidemill::{Fail, Job, JobContext, Worker, secs};

#[derive(Serialize, Deserialize)]
struct Render {
    video: String,
}

impl Job for Render {
    const KIND: &'static str = "render";
    const QUEUE: &'static str = "videos";
    type Output = String;
}

/// Watches for its cancellation, so it may clean up before it ends. A handler that does not watch
/// is dropped at its next `.await`.
async fn render(job: Render, cx: JobContext) -> Result<String, Fail> {
    println!("rendering {}", job.video);
    tokio::select! {
        () = cx.cancelled() => {
            println!("removing the unfinished {}", job.video);
            Err(Fail::discard("it was cancelled"))
        }
        () = tokio::time::sleep(secs(600)) => Ok(job.video),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = tidemill::connect("sqlite::memory:").await?;
    let videos = client.queue("videos");
    videos.pause().await?;
    let render_job = |video: &str| client.job(Render { video: video.into() }).enqueue();
    let (first, second) = (render_job("holidays.mov").await?, render_job("birthday.mov").await?);
    if let Some(info) = videos.info().await? {
        println!("{} jobs are ready, paused: {}", info.ready, info.paused);
    }
    println!("the second job: {:?}", second.cancel().await?);

    videos.resume().await?;
    let cancel = async {
        while first.info().await?.is_some_and(|info| info.held_by.is_none()) {
            tokio::time::sleep(secs(1) / 20).await;
        }
        println!("the first job: {:?}", first.cancel().await?);
        if let Err(error) = first.wait().await {
            println!("its result: {error}");
        }
        Ok::<_, tidemill::Error>(())
    };
    Worker::builder(&client).handle(render).queue("videos", 2).run_until(cancel).await?;
    Ok(())
}
