//! The browser pool of a worker: acquires browsers for its jobs and connects to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::fleet::{Offer, SessionId, WorkerKey};
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ListWorkersParams, WaitParams};
use tidemill_core::{Error, HolderId, Store};
use tokio::net::TcpListener;
use tokio::time::{sleep_until, timeout};
use tracing::debug;

use super::browsers::Browsers;
use super::connection::{BrowserConnection, is_on_other_machine};
use super::error::{AcquireError, ConnectError};
use super::leased_browser::Browser;
use crate::lease::{
    CloseSignal, ConnectionState, HeldSession, LeaseClient, LeaseClientOptions, PendingLease, SessionSpec,
    WaitPolicy,
};

/// How long the list of workers may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the store keeps a waiter that does not poll.
const WAITER_TTL: Duration = Duration::from_secs(10);

/// How often a waiting job polls without a wake-up: a wake-up may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How many unusable browsers a job tries before it is postponed.
const MAX_UNUSABLE_BROWSERS: usize = 4;

/// Delay after an unusable browser.
const UNUSABLE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// In larger fleets the check whether all browsers are on other machines is skipped.
const MAX_WORKERS_CHECKED: usize = 100;

/// Acquires browsers for jobs.
#[doc(hidden)]
pub struct BrowserPool {
    pub(super) leases: Arc<LeaseClient>,
    pub(super) browsers: Browsers,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Whether this worker could use the last browser it acquired.
    is_usable: bool,
    /// When the next job may try, and the error of the last one.
    config_error: Option<(Instant, ConnectError)>,
}

/// The job that acquires a browser.
pub(super) struct LeaseRequester {
    pub(super) holder: HolderId,
    pub(super) detail: bytes::Bytes,
}

/// Lets a job wait until its deadline, and remembers why it waits.
#[derive(Default)]
struct JobPolicy {
    last_error: AcquireError,
}

impl WaitPolicy for JobPolicy {
    type Error = AcquireError;

    async fn check(
        &mut self,
        lease: &PendingLease,
        answer: Result<Leased, Error>,
    ) -> Result<(), AcquireError> {
        match answer {
            Ok(Leased::Granted(_)) => return Ok(()),
            Ok(Leased::Waiting { ahead, workers }) => self.last_error.set_waiting(ahead, workers),
            Ok(Leased::Refused { waiting, workers }) => {
                self.last_error = AcquireError::QueueFull { waiting, workers }
            }
            Err(error) => self.last_error = AcquireError::Store(error.full_message()),
        }
        if lease.is_overdue() { Err(self.last_error.clone()) } else { Ok(()) }
    }
}

impl BrowserPool {
    pub(super) fn new(store: Arc<dyn Store>, browsers: Browsers) -> Self {
        let options = LeaseClientOptions {
            lease: browsers.lease.duration,
            poll_interval: POLL_INTERVAL,
            rechecks_everything: false,
            starts_reachable: true,
        };
        Self { leases: LeaseClient::new(store, options), browsers, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a browser, or returns why there was none in time. Dropping the future releases
    /// whatever it has acquired.
    pub(super) async fn acquire(&self, requester: LeaseRequester) -> Result<Browser, AcquireError> {
        let deadline = Instant::now() + self.browsers.wait;
        self.wait_after_config_error(deadline).await.map_err(AcquireError::NoneUsable)?;
        self.check_config().await.map_err(AcquireError::NoneUsable)?;
        let params = self.lease_params(requester);
        let mut lease = PendingLease::new(&self.leases, params, deadline);
        let mut policy = JobPolicy::default();
        loop {
            let grant = lease.acquire(&mut policy).await?;
            let (worker, close) = (grant.worker.clone(), CloseSignal::default());
            match self.connect(&grant, &close).await {
                Ok(connection) => {
                    let held = self.hold(lease, grant.worker, close.clone());
                    return Ok(Browser::new(connection, worker, close, held, self.browsers.max_output_bytes));
                }
                Err(error) => {
                    debug!(%worker, "the browser cannot be used: {error}");
                    let is_config_error = error.is_config_error();
                    policy.last_error = AcquireError::Unusable { worker: worker.clone(), error };
                    lease.reject(worker);
                    if is_config_error || lease.params.rejected.len() >= MAX_UNUSABLE_BROWSERS {
                        return Err(policy.last_error);
                    }
                    // Each try may use up a single-session browser, and is served before all waiters.
                    sleep_until(deadline.min(Instant::now() + UNUSABLE_RETRY_DELAY).into()).await;
                    if lease.is_overdue() {
                        return Err(policy.last_error);
                    }
                }
            }
        }
    }

    /// After a configuration error this worker's jobs try one at a time: otherwise a full queue
    /// would use up one browser each.
    async fn wait_after_config_error(&self, deadline: Instant) -> Result<(), ConnectError> {
        let at = {
            let mut state = self.state();
            let Some((until, error)) = &mut state.config_error else { return Ok(()) };
            let at = (*until).max(Instant::now());
            if at > deadline {
                return Err(error.clone());
            }
            *until = at + UNUSABLE_RETRY_DELAY;
            at
        };
        sleep_until(at.into()).await;
        Ok(())
    }

    /// Checks whether this worker's configuration can use any browser of the fleet, since a lease
    /// would use one up to find out. Skipped once a browser has worked.
    async fn check_config(&self) -> Result<(), ConnectError> {
        let browsers = &self.browsers;
        if !browsers.is_proxied || self.state().is_usable {
            return Ok(());
        }
        TcpListener::bind((browsers.listen, 0))
            .await
            .map_err(|error| ConnectError::ProxyUnavailable(error.to_string()))?;
        if !browsers.listen.is_loopback() {
            return Ok(());
        }
        let kind = Browsers::kind();
        let params = ListWorkersParams { kind: Some(&kind), cursor: None, limit: MAX_WORKERS_CHECKED };
        // The following lease reports an unavailable store.
        let Ok(Ok(page)) = timeout(STORE_TIMEOUT, self.leases.fleet().list_workers(params)).await else {
            return Ok(());
        };
        let mut workers = page.items.iter().filter(|info| info.worker.offer == Offer::cdp()).peekable();
        let is_complete = page.next.is_none() && workers.peek().is_some();
        match is_complete && workers.all(|info| is_on_other_machine(&info.worker.endpoint)) {
            true => Err(ConnectError::OtherMachine),
            false => Ok(()),
        }
    }

    /// Remembers whether a browser could be used.
    fn record_connect_result(&self, error: Option<&ConnectError>) {
        let mut state = self.state();
        match error {
            None => (state.is_usable, state.config_error) = (true, None),
            Some(error) if error.is_config_error() => {
                (state.is_usable, state.config_error) =
                    (false, Some((Instant::now() + UNUSABLE_RETRY_DELAY, error.clone())));
            }
            Some(_) => {}
        }
    }

    fn lease_params(&self, requester: LeaseRequester) -> LeaseParams {
        LeaseParams {
            session: SessionId::generate(),
            kind: Browsers::kind(),
            offers: vec![Offer::cdp()],
            holder: requester.holder,
            ttl: self.browsers.lease.duration,
            keep: Duration::ZERO,
            detail: requester.detail,
            rejected: Vec::new(),
            wait: Some(WaitParams { max_waiting: self.browsers.max_waiting, ttl: WAITER_TTL }),
            defaults: self.browsers.worker_defaults,
        }
    }

    /// Connects to the granted browser. That takes less time than the shortest lease, so the session
    /// is renewed only afterwards.
    async fn connect(&self, grant: &Grant, close: &CloseSignal) -> Result<BrowserConnection, ConnectError> {
        let connection =
            BrowserConnection::open(&grant.endpoint, &self.browsers, close.token().clone()).await;
        self.record_connect_result(connection.as_ref().err());
        connection
    }

    /// Renews the session from now on.
    fn hold(&self, lease: PendingLease, worker: WorkerKey, close: CloseSignal) -> HeldSession {
        let LeaseParams { holder, keep, detail, .. } = lease.params.clone();
        let started_at = self.leases.store.clock().now();
        let spec = SessionSpec { holder, worker, keep, detail, started_at, deadline: None };
        let connection = ConnectionState::Connected { close, traffic: Arc::default(), attach_result: None };
        HeldSession::new(&self.leases, lease.into_session(), spec, connection)
    }
}
