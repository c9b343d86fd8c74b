//! Enqueues whose answers are lost, with a worker that runs each job at once: each job runs once,
//! and the caller gets the right result.

// A test fails by panicking.
#![allow(clippy::expect_used)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use tidemill_core::client::{Client, Enqueue};
use tidemill_core::settle::{DecideContext, Outcome, Settlement, decide};
use tidemill_core::store::{ClaimParams, Claimed, PromoteParams, SettleParams};
use tidemill_core::{Backoff, Dedup, Error, Guarantee, HolderId, JobId, Queue, QueueName, Store};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::conformance::harness::envelope;
use crate::faults::Proxy;

/// How often an answer is lost for each variant of enqueueing.
const TRIES_PER_VARIANT: usize = 20;

/// Longer than any job takes on any machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// The queues that the worker serves.
fn queues() -> [Queue; 2] {
    let queue = |name, guarantee| Queue { name: QueueName::new(name).expect("a name"), guarantee };
    [queue("lost", Guarantee::AtLeastOnce), queue("lost-once", Guarantee::AtMostOnce)]
}

/// Runs jobs as fast as it can, and counts the runs of each. Leases are long and nothing is
/// rescued, so a job that runs twice was created twice.
pub struct CountingWorker {
    runs: Arc<Mutex<HashMap<JobId, usize>>>,
    work: JoinHandle<()>,
}

impl CountingWorker {
    /// Starts a worker on a store.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let runs: Arc<Mutex<HashMap<JobId, usize>>> = Arc::default();
        let counted = runs.clone();
        let work = tokio::spawn(async move {
            let worker = HolderId::from_process("counting", 1, 0);
            loop {
                // A claim whose answer was lost counts nothing, so it cannot count a job twice.
                let _ = run_all(&*store, &worker, &counted).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { runs, work }
    }

    /// How often a job ran.
    pub fn runs(&self, job: &JobId) -> usize {
        self.runs.lock().expect("a lock").get(job).copied().unwrap_or(0)
    }

    /// How many jobs ran, and which of them more than once.
    pub fn repeated(&self) -> (usize, Vec<(JobId, usize)>) {
        let runs = self.runs.lock().expect("a lock");
        let more = runs.iter().filter(|(_, runs)| **runs > 1).map(|(job, runs)| (job.clone(), *runs));
        (runs.len(), more.collect())
    }

    /// Completes when each of these jobs has run.
    async fn wait_for_runs(&self, jobs: &[JobId]) {
        let all = async {
            while jobs.iter().any(|job| self.runs(job) == 0) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(RUN_TIMEOUT, all).await.expect("every job to run");
    }
}

impl Drop for CountingWorker {
    fn drop(&mut self) {
        self.work.abort();
    }
}

async fn run_all(
    store: &dyn Store,
    worker: &HolderId,
    runs: &Mutex<HashMap<JobId, usize>>,
) -> Result<(), Error> {
    store.promote(PromoteParams { queues: &queues(), limit: 100 }).await?;
    for queue in queues() {
        let claimed = store.claim(ClaimParams::now(&queue, worker, Duration::from_secs(3600), 500)).await?;
        let now = store.clock().now();
        let context = || DecideContext { now, backoff: Backoff::constant(Duration::ZERO), random: 0.0 };
        let finish = |claimed: Claimed| {
            let change = decide(envelope(&claimed), Outcome::Done("null".into()), context());
            Settlement { lease: claimed.lease, change }
        };
        let settlements: Vec<Settlement> = claimed.into_iter().map(finish).collect();
        for settlement in &settlements {
            *runs.lock().expect("a lock").entry(settlement.lease.job.clone()).or_default() += 1;
        }
        store.settle(SettleParams::current(&settlements)).await?;
    }
    Ok(())
}

/// The variants of enqueueing one job.
const ENQUEUE_VARIANTS: [&str; 8] =
    ["plain", "explicit id", "delayed", "at most once", "untracked", "kept", "deduplicated", "after another"];

/// A job whose envelope contains `mark`, to be enqueued in the given variant.
async fn prepare(client: &Client, variant: &str, mark: &str) -> Enqueue<Box<RawValue>> {
    let payload = RawValue::from_string(format!("{mark:?}")).expect("a payload");
    let job = client.untyped("test", payload).queue("lost");
    match variant {
        "plain" => job,
        "explicit id" => job.id(&own_id(mark)),
        "delayed" => job.delay(Duration::from_millis(1)),
        "at most once" => job.queue("lost-once").guarantee(Guarantee::AtMostOnce).id(&own_id(mark)),
        "untracked" => job.tracked(false),
        "kept" => job.keep_result(Duration::from_millis(1)),
        "deduplicated" => job.dedup(Dedup::open(own_id(mark))).keep_result(Duration::from_millis(1)),
        _ => {
            let payload = RawValue::from_string("null".to_owned()).expect("a payload");
            let first = client.untyped("test", payload).queue("lost").keep_result(Duration::from_secs(60));
            job.after(&first.enqueue().await.expect("a job to wait for"))
        }
    }
}

/// An id that does not contain `mark`: only the request with the job itself does.
fn own_id(mark: &str) -> String {
    mark.chars().rev().collect()
}

/// Loses one answer for each variant of enqueueing, many times. `proxied` connects through `proxy`;
/// `direct` is another connection to the same store.
pub async fn one_enqueue_stays_one_job(proxied: Arc<dyn Store>, proxy: &Proxy, direct: Arc<dyn Store>) {
    let (client, worker) = (Client::new(proxied), CountingWorker::start(direct));
    let mut wrong = Vec::new();
    for variant in ENQUEUE_VARIANTS {
        for number in 0..TRIES_PER_VARIANT {
            let mark = format!("{}-{number}", variant.replace(' ', "-"));
            let job = prepare(&client, variant, &mark).await;
            let dropped = proxy.answers_dropped();
            proxy.drop_answer_to(&mark);
            let handle = job.enqueue().await.expect("a repeat is answered");
            worker.wait_for_runs(std::slice::from_ref(handle.id())).await;
            assert_eq!(proxy.answers_dropped(), dropped + 1, "{variant}: the answer was not lost");
            if !handle.created() {
                wrong.push(format!("{mark} was made by this call, which was told that it was there"));
            }
        }
    }
    enqueue_bulks(&client, proxy, &worker).await;
    enqueue_concurrently(&client, proxy, &worker).await;
    // A job that was created twice runs again right after its first run.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (jobs, repeated) = worker.repeated();
    wrong.extend(repeated.iter().map(|(job, runs)| format!("{job} ran {runs} times")));
    assert!(wrong.is_empty(), "of {jobs} jobs {} went wrong: {wrong:#?}", wrong.len());
}

/// Enqueues in bulk, with tracked and untracked jobs.
async fn enqueue_bulks(client: &Client, proxy: &Proxy, worker: &CountingWorker) {
    for number in 0..TRIES_PER_VARIANT {
        let mark = format!("bulk-{number}");
        let payload = |n| RawValue::from_string(format!("\"{mark}-{n}\"")).expect("a payload");
        let bulk = client.untyped_jobs("test", (0..50).map(payload).collect()).queue("lost");
        proxy.drop_answer_to(&format!("{mark}-7"));
        let ids = bulk.tracked(number % 2 == 0).enqueue().await.expect("a repeat is answered");
        worker.wait_for_runs(&ids).await;
    }
}

/// Enqueues single jobs from many callers, which share requests.
async fn enqueue_concurrently(client: &Client, proxy: &Proxy, worker: &CountingWorker) {
    for number in 0..TRIES_PER_VARIANT {
        let mark = format!("crowd-{number}");
        proxy.drop_answer_to(&mark);
        let calls = (0..20).map(|n| {
            let payload = RawValue::from_string(format!("\"{mark}-{n}\"")).expect("a payload");
            client.untyped("test", payload).queue("lost").enqueue()
        });
        let handles = futures_util::future::try_join_all(calls).await.expect("a repeat is answered");
        let ids: Vec<JobId> = handles.iter().map(|handle| handle.id().clone()).collect();
        worker.wait_for_runs(&ids).await;
        assert!(handles.iter().all(tidemill_core::JobHandle::created));
    }
}

/// Enqueues from many callers for `duration` while `cut` is called every 80 ms, and asserts that no
/// job was created twice. Returns the number of acknowledged jobs.
pub async fn no_job_is_accepted_twice(
    proxied: Arc<dyn Store>,
    direct: Arc<dyn Store>,
    duration: Duration,
    cut: impl AsyncFn(),
) -> usize {
    let (client, worker) = (Client::new(proxied), CountingWorker::start(direct));
    let began = tokio::time::Instant::now();
    let calls = (0..16).map(|caller| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut acknowledged = 0;
            for number in 0.. {
                if began.elapsed() > duration {
                    break;
                }
                let payload = RawValue::from_string(number.to_string()).expect("a payload");
                let job = client.untyped("test", payload).queue("lost");
                let job = if number % 4 == 3 { job.id(&format!("j-{caller}-{number}")) } else { job };
                acknowledged += usize::from(job.enqueue().await.is_ok());
            }
            acknowledged
        })
    });
    let calls: Vec<_> = calls.collect();
    while began.elapsed() < duration {
        cut().await;
        tokio::time::sleep(Duration::from_millis(80)).await;
    }
    let mut acknowledged = 0;
    for call in calls {
        acknowledged += call.await.expect("a caller");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (jobs, repeated) = worker.repeated();
    assert!(repeated.is_empty(), "of {jobs} jobs {} ran more than once: {repeated:?}", repeated.len());
    acknowledged
}
