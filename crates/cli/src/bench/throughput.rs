//! Throughput in jobs per second: enqueues all jobs, then runs them all.

use std::time::Instant;

use bytes::Bytes;
use tidemill::Client;
use tidemill::baseline::Baseline;
use tidemill::envelope::{JobOptions, Meta};
use tidemill::{JobId, Kind, Timestamp};

use super::workload::{BenchError, BenchQueue, Noop};

/// The measured throughput of Tidemill.
pub(super) struct Throughput {
    pub(super) per_s: f64,
    pub(super) commands_per_job: f64,
}

/// Measures the raw loop with the same envelopes, made in advance.
pub(super) async fn measure_raw(baseline: &dyn Baseline, jobs: usize) -> Result<f64, BenchError> {
    baseline.clear().await?;
    let envelopes = envelopes(jobs)?;
    let batch = baseline.batch();
    let started = Instant::now();
    for part in envelopes.chunks(batch.enqueue) {
        baseline.enqueue(part).await?;
    }
    let mut seen = 0;
    while seen < jobs {
        let taken = baseline.claim(batch.claim).await?;
        if taken == 0 {
            return Err(BenchError::Miscount { expected: jobs, seen: seen as u64 });
        }
        seen += taken;
    }
    Ok(jobs as f64 / started.elapsed().as_secs_f64())
}

/// Measures Tidemill: typed jobs are enqueued, claimed, decoded, run and settled.
pub(super) async fn measure_tidemill(
    client: &Client,
    queue: &BenchQueue,
    jobs: usize,
) -> Result<Throughput, BenchError> {
    let before = client.store().commands();
    let started = Instant::now();
    let all = client.jobs((0..jobs).map(Noop::new)).queue(queue.name).guarantee(queue.guarantee);
    all.batch(queue.batch).enqueue().await?;
    let report = queue.worker(client).drain().await?;
    let per_s = jobs as f64 / started.elapsed().as_secs_f64();
    if report.total.done != jobs as u64 {
        return Err(BenchError::Miscount { expected: jobs, seen: report.total.done });
    }
    let commands_per_job = (client.store().commands() - before) as f64 / jobs as f64;
    Ok(Throughput { per_s, commands_per_job })
}

/// Envelopes as Tidemill writes them.
pub(super) fn envelopes(count: usize) -> Result<Vec<Bytes>, BenchError> {
    let kind = Kind::new("noop").map_err(tidemill::Error::from)?;
    let meta = Meta { correlation_id: None, user_id: None, enqueue_ts: Timestamp::now(), source: "tidemill" };
    let options = JobOptions {
        kind: &kind,
        max_attempts: 5,
        timeout: None,
        keep_result: None,
        backoff: None,
        tracked: false,
        activity: None,
        meta,
    };
    let template = options.template();
    let invalid = |error: serde_json::Error| tidemill::Error::Invalid(error.to_string());
    let one = |n| Ok(template.fill(&JobId::generate(), &Noop::new(n)).map_err(invalid)?.0);
    (0..count).map(one).collect()
}
