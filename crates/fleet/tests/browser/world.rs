//! A store in memory, a browser in the fleet, and a worker that uses it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use tidemill_core::client::WaitError;
use tidemill_core::fleet::{Capacity, Offer, WorkerKey};
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo, WorkerEntry, WorkerStatus};
use tidemill_core::{Client, Job, JobId};
use tidemill_fleet::browser::{Browsers, UseBrowsers};
use tidemill_sqlite::{SqliteOptions, SqliteStore};
use tidemill_worker::{Event, Report, Worker, WorkerBuilder, WorkerError};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::launcher::Chromium;
use crate::site::Site;

/// A test that waits longer than this waits for ever.
const FOR_EVER: Duration = Duration::from_secs(120);

pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.expect("it never happens")
}

/// A place with one browser, which takes one session at a time, and a site whose pages may be
/// visited.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) chromium: Chromium,
    pub(crate) site: Site,
}

impl World {
    pub(crate) async fn new() -> Self {
        let client = Client::new(Arc::new(SqliteStore::open(SqliteOptions::memory()).await.unwrap()));
        let (chromium, site) = (Chromium::start().await, Site::open().await);
        let world = Self { client, chromium, site };
        world.enter("a", &world.chromium.endpoint).await;
        world
    }

    /// Enters a browser into the fleet.
    pub(crate) async fn enter(&self, name: &str, endpoint: &str) {
        let member = WorkerEntry {
            id: id(name),
            offer: Offer::cdp(),
            endpoint: endpoint.to_owned(),
            status: WorkerStatus::Available,
            capacity: Capacity { concurrent: 1, lifetime: 0 },
            beat_timeout: Duration::from_secs(3600),
            detail: Bytes::from_static(b"{}"),
        };
        self.client.store().join(&[member]).await.unwrap();
    }

    /// What may be reached: the site, and nothing else on this machine.
    pub(crate) fn browsers(&self) -> Browsers {
        Browsers::new().allow(self.site.address.to_string().parse().unwrap())
    }

    pub(crate) fn worker(&self) -> WorkerBuilder {
        Worker::builder(&self.client).queue("default", 4)
    }

    /// A worker for the built-in jobs.
    pub(crate) fn built_in(&self) -> Running {
        Running::start(self.worker().browsers(self.browsers()).browser_jobs())
    }

    /// Runs one job to its end.
    pub(crate) async fn output<J: Job>(
        &self,
        job: J,
    ) -> <J::Output as tidemill_core::chain::IntoCompletion>::Awaited {
        let handle = self.client.job(job).max_attempts(1).enqueue().await.unwrap();
        patiently(handle.wait()).await.unwrap()
    }

    /// Runs one job to its death, in its only attempt: the reason and the last error.
    pub(crate) async fn death(&self, kind: &str, payload: Value) -> (String, String) {
        let payload = RawValue::from_string(payload.to_string()).unwrap();
        let job = self.client.untyped(kind, payload).max_attempts(1).keep_result(FOR_EVER);
        match patiently(job.enqueue().await.unwrap().wait()).await {
            Err(WaitError::Dead { reason, error, .. }) => (reason, error),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionInfo> {
        let list = ListSessionsParams { worker: None, cursor: None, limit: 10 };
        self.client.store().list_sessions(list).await.unwrap().items
    }

    /// Completes when no browser is leased any more.
    pub(crate) async fn all_are_free(&self) {
        patiently(async {
            while !self.sessions().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    pub(crate) async fn last_error(&self, job: &JobId) -> Option<String> {
        let info = self.client.store().get_job(job).await.unwrap()?;
        let json: Value = serde_json::from_slice(&info.data).unwrap();
        json["last_error"].as_str().map(ToOwned::to_owned)
    }
}

pub(crate) fn id(name: &str) -> WorkerKey {
    format!("chromium:{name}").parse().unwrap()
}

/// A worker in the background.
pub(crate) struct Running {
    pub(crate) events: broadcast::Receiver<Event>,
    stop: CancellationToken,
    run: JoinHandle<Result<Report, WorkerError>>,
}

impl Running {
    pub(crate) fn start(worker: WorkerBuilder) -> Self {
        let (events, stop) = (worker.events(), CancellationToken::new());
        let run = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Self { events, stop, run }
    }

    /// The next attempt that ends.
    pub(crate) async fn next(&mut self) -> Event {
        patiently(self.events.recv()).await.unwrap()
    }

    pub(crate) async fn stop(self) -> Report {
        self.stop.cancel();
        patiently(self.run).await.unwrap().unwrap()
    }
}
