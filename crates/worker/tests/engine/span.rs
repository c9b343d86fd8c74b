//! The span around a handler: what a log line inside it carries.

use std::io;
use std::sync::{Arc, Mutex};

use tidemill_worker::{Fail, JobContext};

use crate::world::{Ping, World};

/// The log of one test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    /// A dispatcher that writes to this log.
    fn subscriber(&self, filter: &str) -> impl tracing::Subscriber + Send + Sync {
        let log = self.clone();
        tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(move || log.clone()).finish()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs once in its first poll and once in a later one.
async fn log_twice(_: Ping, cx: JobContext) -> Result<u32, Fail> {
    tracing::warn!(target: "app", "first");
    tokio::task::yield_now().await;
    tracing::warn!(target: "app", "second");
    if cx.attempt() == 1 { Err(Fail::retry_after("again", std::time::Duration::ZERO)) } else { Ok(1) }
}

async fn lines_of_one_job(filter: &str) -> (String, Vec<String>) {
    let (world, log) = (World::new().await, Log::default());
    let job = world.client.job(Ping { n: 1 }).correlation_id("request-7").enqueue().await.unwrap();
    // The tasks of a worker run on the test's own thread, which has this subscriber.
    let subscriber = log.subscriber(filter);
    let _guard = tracing::subscriber::set_default(subscriber);
    world.worker().handle(log_twice).queue("default", 1).drain().await.unwrap();
    let lines = log.lines().into_iter().filter(|line| line.contains("\"target\":\"app\"")).collect();
    (job.id().to_string(), lines)
}

#[tokio::test]
async fn a_log_line_of_a_handler_names_its_job() {
    let (job, lines) = lines_of_one_job("info").await;
    let spans: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["span"].clone())
        .collect();
    assert_eq!(spans.len(), 4, "two in each of two attempts: {lines:?}");
    for (span, attempt) in spans.iter().zip([1, 1, 2, 2]) {
        let expected = serde_json::json!({
            "name": "job",
            "job_id": job,
            "kind": "ping",
            "queue": "default",
            "attempt": attempt,
            "correlation_id": "request-7",
        });
        assert_eq!(*span, expected);
    }
}

#[tokio::test]
async fn a_subscriber_that_does_not_want_the_span_gets_none() {
    let (_, lines) = lines_of_one_job("app=info").await;
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| !line.contains("job_id")), "{lines:?}");
}
