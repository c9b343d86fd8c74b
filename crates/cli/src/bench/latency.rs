//! The latency from enqueue to start, at a load that leaves every part idle in between: 100 jobs
//! per second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidemill::baseline::Baseline;
use tidemill::{Client, Fail, Job, State, Worker};
use tokio::sync::Notify;

use super::throughput::envelopes;
use super::workload::{BenchError, BenchQueue, PADDING};

const ENQUEUE_INTERVAL: Duration = Duration::from_millis(10);

/// A job with its time of enqueue, in nanoseconds since the start of the measurement.
#[derive(Serialize, Deserialize)]
struct TimedJob {
    enqueued_ns: u64,
    padding: String,
}

impl Job for TimedJob {
    const KIND: &'static str = "stamp";
    type Output = ();
}

/// The measured latencies in microseconds.
#[derive(Clone)]
struct Samples {
    started: Instant,
    taken: Arc<Mutex<Vec<f64>>>,
    full: Arc<Notify>,
    wanted: usize,
}

impl Samples {
    fn new(wanted: usize) -> Self {
        let (taken, full) = (Arc::default(), Arc::new(Notify::new()));
        Self { started: Instant::now(), taken, full, wanted }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn add(&self, enqueued_ns: u64) {
        let took = self.now().saturating_sub(enqueued_ns) as f64 / 1_000.0;
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

async fn record_latency(job: TimedJob, State(samples): State<Samples>) -> Result<(), Fail> {
    samples.add(job.enqueued_ns);
    Ok(())
}

/// Measures Tidemill: single typed enqueues and one idle worker.
pub(super) async fn measure_tidemill(
    client: &Client,
    queue: &BenchQueue,
    wanted: usize,
) -> Result<Vec<f64>, BenchError> {
    let samples = Samples::new(wanted);
    let worker = Worker::builder(client).state(samples.clone()).handle(record_latency);
    let full = samples.full.clone();
    let running =
        tokio::spawn(queue.serve_with(worker, 16).build()?.run_until(async move { full.notified().await }));
    let mut tick = tokio::time::interval(ENQUEUE_INTERVAL);
    for _ in 0..wanted {
        tick.tick().await;
        let job = TimedJob { enqueued_ns: samples.now(), padding: PADDING.to_owned() };
        client.job(job).queue(queue.name).guarantee(queue.guarantee).enqueue().await?;
    }
    running.await.map_err(|error| tidemill::Error::Unsuitable(error.to_string()))??;
    Ok(samples.take())
}

/// Measures a raw blocking read; `None` on a store without one.
pub(super) async fn measure_raw(
    baseline: &dyn Baseline,
    wanted: usize,
) -> Result<Option<Vec<f64>>, BenchError> {
    baseline.clear().await?;
    let envelopes = envelopes(wanted)?;
    let mut samples = Vec::with_capacity(wanted);
    let mut tick = tokio::time::interval(ENQUEUE_INTERVAL);
    for envelope in &envelopes {
        tick.tick().await;
        let started = std::cell::Cell::new(Instant::now());
        // The read blocks before the envelope arrives, as a worker's claim does.
        let add = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            started.set(Instant::now());
            baseline.enqueue(std::slice::from_ref(envelope)).await
        };
        let wait = async { baseline.wait().await.map(|found| found.map(|_| Instant::now())) };
        let (added, waited) = tokio::join!(add, wait);
        added?;
        let Some(ended) = waited? else { return Ok(None) };
        samples.push((ended - started.get()).as_secs_f64() * 1e6);
    }
    Ok(Some(samples))
}
