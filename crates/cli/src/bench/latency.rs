//! From enqueue to start, at a load that leaves every part idle in between: 100 jobs a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidemill::baseline::Baseline;
use tidemill::{Client, Fail, Job, State, Worker};
use tokio::sync::Notify;

use super::rate::envelopes;
use super::work::{BenchError, PADDING, Queue};

const PACE: Duration = Duration::from_millis(10);

/// A job that says when it was made, as nanoseconds since the measurement began.
#[derive(Serialize, Deserialize)]
struct Stamp {
    made: u64,
    padding: String,
}

impl Job for Stamp {
    const KIND: &'static str = "stamp";
    type Output = ();
}

/// The samples so far, in microseconds.
#[derive(Clone)]
struct Samples {
    begun: Instant,
    taken: Arc<Mutex<Vec<f64>>>,
    full: Arc<Notify>,
    wanted: usize,
}

impl Samples {
    fn new(wanted: usize) -> Self {
        let (taken, full) = (Arc::default(), Arc::new(Notify::new()));
        Self { begun: Instant::now(), taken, full, wanted }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn add(&self, made: u64) {
        let took = self.now().saturating_sub(made) as f64 / 1_000.0;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push(took);
        if taken.len() >= self.wanted {
            self.full.notify_one();
        }
    }

    fn take(&self) -> Vec<f64> {
        std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn stamp(job: Stamp, State(samples): State<Samples>) -> Result<(), Fail> {
    samples.add(job.made);
    Ok(())
}

/// Through Tidemill: single typed enqueues, one idle worker.
pub(super) async fn own(client: &Client, queue: &Queue, wanted: usize) -> Result<Vec<f64>, BenchError> {
    let samples = Samples::new(wanted);
    let worker = Worker::builder(client).state(samples.clone()).handle(stamp);
    let full = samples.full.clone();
    let running =
        tokio::spawn(queue.join(worker, 16).build()?.run_until(async move { full.notified().await }));
    let mut tick = tokio::time::interval(PACE);
    for _ in 0..wanted {
        tick.tick().await;
        let job = Stamp { made: samples.now(), padding: PADDING.to_owned() };
        client.job(job).queue(queue.name).guarantee(queue.delivery).enqueue().await?;
    }
    running.await.map_err(|error| tidemill::Error::Unsuitable(error.to_string()))??;
    Ok(samples.take())
}

/// Through a raw blocking read; none where there is no such thing.
pub(super) async fn raw(floor: &dyn Baseline, wanted: usize) -> Result<Option<Vec<f64>>, BenchError> {
    floor.clear().await?;
    let envelopes = envelopes(wanted)?;
    let mut samples = Vec::with_capacity(wanted);
    let mut tick = tokio::time::interval(PACE);
    for envelope in &envelopes {
        tick.tick().await;
        let begun = std::cell::Cell::new(Instant::now());
        // The read is already blocked when the envelope arrives, as a worker's is.
        let add = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            begun.set(Instant::now());
            floor.enqueue(std::slice::from_ref(envelope)).await
        };
        let wait = async { floor.wait().await.map(|found| found.map(|_| Instant::now())) };
        let (added, waited) = tokio::join!(add, wait);
        added?;
        let Some(ended) = waited? else { return Ok(None) };
        samples.push((ended - begun.get()).as_secs_f64() * 1e6);
    }
    Ok(Some(samples))
}
