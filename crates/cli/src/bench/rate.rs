//! Jobs per second, end to end: everything in, then everything through.

use std::time::Instant;

use bytes::Bytes;
use tidemill::Client;
use tidemill::baseline::Baseline;
use tidemill::envelope::{JobOptions, Meta};
use tidemill::{JobId, Kind, Timestamp};

use super::work::{BenchError, Noop, Queue};

/// What Tidemill reached.
pub(super) struct Rate {
    pub(super) per_s: f64,
    pub(super) commands_per_job: f64,
}

/// The raw loop: the same envelopes, made beforehand.
pub(super) async fn raw(floor: &dyn Baseline, jobs: usize) -> Result<f64, BenchError> {
    floor.clear().await?;
    let envelopes = envelopes(jobs)?;
    let batch = floor.batch();
    let begun = Instant::now();
    for part in envelopes.chunks(batch.enqueue) {
        floor.enqueue(part).await?;
    }
    let mut seen = 0;
    while seen < jobs {
        let taken = floor.claim(batch.claim).await?;
        if taken == 0 {
            return Err(BenchError::Miscount { expected: jobs, seen: seen as u64 });
        }
        seen += taken;
    }
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// Tidemill: typed jobs are made, written, claimed, decoded, run and settled.
pub(super) async fn own(client: &Client, queue: &Queue, jobs: usize) -> Result<Rate, BenchError> {
    let before = client.store().commands();
    let begun = Instant::now();
    let all = client.jobs((0..jobs).map(Noop::new)).queue(queue.name).guarantee(queue.delivery);
    all.batch(queue.batch).enqueue().await?;
    let report = queue.worker(client).drain().await?;
    let per_s = jobs as f64 / begun.elapsed().as_secs_f64();
    if report.total.done != jobs as u64 {
        return Err(BenchError::Miscount { expected: jobs, seen: report.total.done });
    }
    let commands_per_job = (client.store().commands() - before) as f64 / jobs as f64;
    Ok(Rate { per_s, commands_per_job })
}

/// Envelopes as Tidemill writes them.
pub(super) fn envelopes(count: usize) -> Result<Vec<Bytes>, BenchError> {
    let kind = Kind::new("noop").map_err(tidemill::Error::from)?;
    let meta = Meta { correlation_id: None, user_id: None, enqueue_ts: Timestamp::now(), source: "tidemill" };
    let draft = JobOptions {
        kind: &kind,
        max_attempts: 5,
        timeout: None,
        keep_result: None,
        tracked: false,
        activity: None,
        meta,
    };
    let frame = draft.template();
    let invalid = |error: serde_json::Error| tidemill::Error::Invalid(error.to_string());
    let one = |n| Ok(frame.fill(&JobId::generate(), &Noop::new(n)).map_err(invalid)?.0);
    (0..count).map(one).collect()
}
