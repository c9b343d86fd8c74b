//! The stores, a worker in the background, and quantiles.

use std::time::Duration;

use tidemill::{Client, Namespace, Report, WorkerBuilder, WorkerError};
use tidemill_testkit::servers::{shared_postgres, shared_redis};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Timeout of every wait.
const FOR_EVER: Duration = Duration::from_secs(60);

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Every store, for a test of this name.
pub(crate) async fn stores(name: &str) -> [(&'static str, Client); 3] {
    let redis = tidemill::ClientBuilder::new(&shared_redis().url());
    let redis = redis.namespace(Namespace::new(&format!("{name}:")).unwrap()).connect().await.unwrap();
    let postgres = tidemill::connect(&shared_postgres().database().unwrap()).await.unwrap();
    [
        ("SQLite", tidemill::connect("sqlite::memory:").await.unwrap()),
        ("Redis", redis),
        ("PostgreSQL", postgres),
    ]
}

/// A worker in the background.
pub(crate) struct Background {
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Background {
    pub(crate) fn run(worker: WorkerBuilder) -> Self {
        let stop = CancellationToken::new();
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { stop, run }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        patiently(self.run).await.unwrap().unwrap();
    }
}

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.unwrap_or_else(|_| panic!("it never happens"))
}

/// Polls until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    patiently(async {
        while !holds().await {
            tokio::time::sleep(ms(2)).await;
        }
    })
    .await;
}

/// The quantile `share`.
pub(crate) fn quantile<T: Ord + Copy>(values: &mut [T], share: f64) -> T {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share) as usize]
}
