//! A job and a worker in the background.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Client, Fail, Job, Report, Worker, WorkerError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Timeout of every wait.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(180);

/// A job that takes a moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Step(pub(crate) u32);

impl Job for Step {
    const KIND: &'static str = "step";
    const QUEUE: &'static str = "steps";
    type Output = ();
}

/// A worker in the background.
pub(crate) struct Background {
    begun: mpsc::UnboundedReceiver<u32>,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    pub(crate) fn start(client: &Client) -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let handler = move |step: Step| {
            let begin = begin.clone();
            async move {
                let _ = begin.send(step.0);
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok::<_, Fail>(())
            }
        };
        let stop = CancellationToken::new();
        let worker = Worker::builder(client).handle(handler).queue(Step::QUEUE, 4);
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { begun, stop, run }
    }

    /// Waits until each of these steps has started.
    pub(crate) async fn begins(&mut self, steps: impl Iterator<Item = u32>) {
        let mut left: HashSet<u32> = steps.collect();
        let begun = async {
            while !left.is_empty() {
                left.remove(&self.begun.recv().await.unwrap());
            }
        };
        let is_done = tokio::time::timeout(FOR_EVER, begun).await.is_ok();
        assert!(is_done, "these steps never began: {left:?}");
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(FOR_EVER, self.run).await.unwrap().unwrap().unwrap();
    }
}

/// Enqueues a step, again and again while the store is unavailable.
pub(crate) async fn enqueue(client: &Client, step: u32) {
    let enqueued = async {
        while let Err(error) = client.job(Step(step)).enqueue().await {
            assert!(error.to_string().len() < 2_000, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(FOR_EVER, enqueued).await.unwrap();
}

/// Runs one job from its enqueue to its end.
pub(crate) async fn works(url: &str) {
    let client = tidemill::connect(url).await.unwrap();
    let mut worker = Background::start(&client);
    enqueue(&client, 1).await;
    worker.begins(1..=1).await;
    worker.stop().await;
}
