//! Cut connections and servers that are down: clear errors, and progress afterwards.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tidemill_core::chain::JobLinks;
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::{ClaimParams, Due, EnqueueParams, Inspect, Jobs, NewJob, Queues, SettleParams};
use tidemill_core::wake::Wake;
use tidemill_core::{Envelope, Error, HolderId, JobId, Queue, QueueName, Store};
use tidemill_postgres::PostgresStore;
use tidemill_testkit::servers::{Postgres, shared_postgres};
use world::{connect, query};

/// Short: a claim whose response was lost holds its jobs for as long.
const LEASE: Duration = Duration::from_secs(1);

fn queue() -> Queue {
    Queue::at_least_once(QueueName::new("jobs").unwrap())
}

fn job() -> NewJob {
    let id = JobId::generate();
    let envelope = format!(r#"{{"job_id":"{id}","task_type":"t"}}"#);
    NewJob {
        id,
        envelope: envelope.into(),
        due: Due::Now,
        tracked: true,
        generated_id: false,
        links: JobLinks::default(),
    }
}

/// Retries calls that failed only because the store was down, as every caller does.
async fn surely<T, F: Future<Output = Result<T, Error>>>(mut act: impl FnMut() -> F) -> T {
    loop {
        match act().await {
            Ok(value) => return value,
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{}", error.full_message()),
        }
    }
}

/// Runs one job to its end and returns its id.
async fn run_one(store: &PostgresStore) -> JobId {
    let (queue, worker) = (queue(), HolderId::from_process("host", 1, 0));
    let claim =
        || ClaimParams { wait: Duration::from_secs(1), ..ClaimParams::now(&queue, &worker, LEASE, 1) };
    let claimed = loop {
        if let Some(claimed) = surely(|| store.claim(claim())).await.pop() {
            break claimed;
        }
        surely(|| tidemill_core::settle::expired::rescue(store, std::slice::from_ref(&queue), LEASE)).await;
    };
    let job = claimed.body.as_ref().map(Envelope::id).unwrap().clone();
    let settlement = [Settlement { lease: claimed.lease, change: Change::Finish(None) }];
    surely(|| store.settle(SettleParams::current(&settlement))).await;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_while_backends_are_terminated() {
    let url = shared_postgres().database().unwrap();
    let (store, queue) = (Arc::new(connect(&url).await), queue());
    let worker = store.clone();
    let mut left = HashSet::new();
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let work = tokio::spawn(async move { while done.send(run_one(&worker).await).is_ok() {} });
    for _ in 0..5 {
        for _ in 0..20 {
            let job = job();
            left.insert(job.id.clone());
            let jobs = [job.clone()];
            surely(|| store.enqueue(EnqueueParams { queue: &queue, jobs: &jobs })).await;
        }
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'tidemill'";
        query(&url, cut).await;
    }
    while !left.is_empty() {
        let job = tokio::time::timeout(Duration::from_secs(30), ended.recv()).await.unwrap().unwrap();
        left.remove(&job);
    }
    work.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_claim_and_a_listener_outlive_a_restart_of_the_server() {
    let server = Postgres::start().unwrap();
    let store = Arc::new(connect(&server.database().unwrap()).await);
    let mut wakes = store.subscribe();
    assert_eq!(wakes.next().await, Some(Wake::Everything));
    let (waiting, worker) = (
        store.clone(),
        tokio::spawn({
            let store = store.clone();
            async move { run_one(&store).await }
        }),
    );
    server.restart().unwrap();
    // After the outage wake-ups may have been missed, and the listener reports that.
    while wakes.next().await != Some(Wake::Everything) {}
    let (job, queue) = (job(), queue());
    let jobs = [job.clone()];
    surely(|| waiting.enqueue(EnqueueParams { queue: &queue, jobs: &jobs })).await;
    let ran = tokio::time::timeout(Duration::from_secs(30), worker).await.unwrap().unwrap();
    assert_eq!(ran, job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_not_stormed() {
    let server = Postgres::start().unwrap();
    let store = Arc::new(connect(&server.database().unwrap()).await);
    server.kill().unwrap();
    let begun = Instant::now();
    let callers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut errors = 0;
            while begun.elapsed() < Duration::from_secs(2) {
                let error = store.get_job(&JobId::generate()).await.unwrap_err();
                assert!(error.is_unavailable(), "{error}");
                errors += 1;
            }
            errors
        })
    });
    let errors: u32 = futures_util::future::join_all(callers).await.into_iter().map(Result::unwrap).sum();
    // Ten a second, plus one for each cut connection and the first attempt.
    let most = 10 * (begun.elapsed().as_secs_f64().ceil() as u32) + 8;
    assert!(errors <= most, "{errors} errors in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_not_waited_for_for_ever() {
    let server = Postgres::start().unwrap();
    let store = connect(&server.database().unwrap()).await;
    server.pause().unwrap();
    let id = JobId::generate();
    let answer = tokio::time::timeout(Duration::from_secs(60), store.get_job(&id)).await;
    server.resume().unwrap();
    assert!(matches!(&answer, Ok(Err(error)) if error.is_unavailable()), "{answer:?}");
    assert!(surely(|| store.get_job(&id)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_quiet() {
    let store = connect(&shared_postgres().database().unwrap()).await;
    let (queue, worker) = (queue(), HolderId::from_process("host", 1, 0));
    store.resume(&queue).await.unwrap();
    let wait = |seconds| ClaimParams {
        wait: Duration::from_secs(seconds),
        ..ClaimParams::now(&queue, &worker, LEASE, 10)
    };
    // The first job opens connections and starts to listen.
    assert!(store.claim(wait(1)).await.unwrap().is_empty());
    let (before, begun) = (store.commands(), Instant::now());
    assert!(store.claim(wait(5)).await.unwrap().is_empty());
    let sent = store.commands() - before;
    assert!(sent as f64 <= begun.elapsed().as_secs_f64(), "{sent} statements in {:?}", begun.elapsed());
}
