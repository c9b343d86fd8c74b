//! The browser pool of a worker: acquires browsers for its jobs and tracks their sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::fleet::{Offer, SessionId, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Grant, LeaseParams, Leased, ListWorkersParams, ReleaseParams, WaitParams,
};
use tidemill_core::{Error, HolderId, Store};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::browsers::Browsers;
use super::connection::{BrowserConnection, is_on_other_machine};
use super::error::{AcquireError, ConnectError};
use super::lease_guard::LeaseGuard;
use super::leased_browser::Browser;

/// How long a store call may take.
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

/// Acquires browsers and tracks their sessions.
#[doc(hidden)]
pub struct BrowserPool {
    pub(super) store: Arc<dyn Store>,
    pub(super) browsers: Browsers,
    state: Mutex<PoolState>,
    /// Notified when there is a session to release.
    pub(super) released: Notify,
    /// Notified when a browser may be free.
    pub(super) capacity: Notify,
}

#[derive(Default)]
struct PoolState {
    held: HashMap<SessionId, LeasedSession>,
    /// Sessions and waiters to release.
    pending_releases: Vec<ReleaseParams>,
    /// Whether this worker could use the last browser it acquired.
    is_usable: bool,
    /// When the next job may try, and the error of the last one.
    config_error: Option<(Instant, ConnectError)>,
}

/// A session in use.
struct LeasedSession {
    attach: AttachParams,
    /// Cancelled when the session must end.
    lost: CancellationToken,
    /// Whether an attach has reached the store. From then on the store remembers a request to close
    /// the session.
    attach_confirmed: bool,
}

/// The job that acquires a browser.
pub(super) struct LeaseRequester {
    pub(super) holder: HolderId,
    pub(super) detail: bytes::Bytes,
}

impl BrowserPool {
    pub(super) fn new(store: Arc<dyn Store>, browsers: Browsers) -> Self {
        Self { store, browsers, state: Mutex::default(), released: Notify::new(), capacity: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a browser, or returns why there was none in time. Dropping the future releases
    /// whatever it has acquired.
    pub(super) async fn acquire(self: Arc<Self>, requester: LeaseRequester) -> Result<Browser, AcquireError> {
        let deadline = Instant::now() + self.browsers.wait;
        let lease = LeaseGuard::new(self.clone(), requester.holder.clone());
        let (mut last_error, mut rejected) = (AcquireError::default(), Vec::new());
        self.wait_after_config_error(deadline).await.map_err(AcquireError::NoneUsable)?;
        self.check_config().await.map_err(AcquireError::NoneUsable)?;
        loop {
            // Enabled before the call, so that a wake-up during it is not missed.
            let mut notified = std::pin::pin!(self.capacity.notified());
            notified.as_mut().enable();
            match self.try_lease(&lease, &requester, &rejected).await {
                Ok(Leased::Granted(grant)) => match self.connect(&grant, &lease, &requester).await {
                    Ok((connection, lost)) => return Ok(Browser::new(connection, grant.worker, lost, lease)),
                    Err(error) => {
                        debug!(worker = %grant.worker, "the browser cannot be used: {error}");
                        let is_config_error = error.is_config_error();
                        last_error = AcquireError::Unusable { worker: grant.worker.clone(), error };
                        rejected.push(grant.worker);
                        if is_config_error || rejected.len() >= MAX_UNUSABLE_BROWSERS {
                            return Err(last_error);
                        }
                        // Each try may use up a single-session browser, and is served before all
                        // waiters.
                        sleep_until(deadline.min(Instant::now() + UNUSABLE_RETRY_DELAY)).await;
                        if Instant::now() < deadline {
                            continue;
                        }
                    }
                },
                Ok(Leased::Waiting { ahead, workers }) => last_error.set_waiting(ahead, workers),
                Ok(Leased::Refused { waiting, workers }) => {
                    last_error = AcquireError::QueueFull { waiting, workers }
                }
                Err(error) => last_error = AcquireError::Store(error.full_message()),
            }
            let next_poll = Instant::now() + POLL_INTERVAL.mul_f64(0.75 + 0.5 * fastrand::f64());
            let _ = timeout_at(deadline.min(next_poll), notified).await;
            if Instant::now() >= deadline {
                return Err(last_error);
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
        sleep_until(at).await;
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
        let Ok(Ok(page)) = timeout(STORE_TIMEOUT, self.store.fleet().list_workers(params)).await else {
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

    async fn try_lease(
        &self,
        lease: &LeaseGuard,
        requester: &LeaseRequester,
        rejected: &[WorkerKey],
    ) -> Result<Leased, Error> {
        let lease = LeaseParams {
            session: lease.session().clone(),
            kind: Browsers::kind(),
            offers: vec![Offer::cdp()],
            holder: requester.holder.clone(),
            ttl: self.browsers.lease.duration,
            keep: Duration::ZERO,
            detail: requester.detail.clone(),
            rejected: rejected.to_vec(),
            wait: Some(WaitParams { max_waiting: self.browsers.max_waiting, ttl: WAITER_TTL }),
            defaults: self.browsers.worker_defaults,
        };
        match timeout(STORE_TIMEOUT, self.store.fleet().lease(&lease)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unavailable { message: "leasing was not answered".into(), source: None }),
        }
    }

    /// Connects to the granted browser and renews its session from now on.
    async fn connect(
        &self,
        grant: &Grant,
        lease: &LeaseGuard,
        requester: &LeaseRequester,
    ) -> Result<(BrowserConnection, CancellationToken), ConnectError> {
        let lost = self.insert_session(grant, lease.session(), requester);
        let connection = BrowserConnection::open(&grant.endpoint, &self.browsers, lost.clone()).await;
        self.record_connect_result(connection.as_ref().err());
        if connection.is_err() {
            self.state().held.remove(lease.session());
        }
        Ok((connection?, lost))
    }

    fn insert_session(
        &self,
        grant: &Grant,
        session: &SessionId,
        requester: &LeaseRequester,
    ) -> CancellationToken {
        let attach = AttachParams {
            session: session.clone(),
            worker: grant.worker.clone(),
            holder: requester.holder.clone(),
            ttl: self.browsers.lease.duration,
            keep: Duration::ZERO,
            connected: true,
            take_over: false,
            must_exist: false,
            detail: requester.detail.clone(),
            started_at: self.store.clock().now(),
        };
        let lost = CancellationToken::new();
        self.state()
            .held
            .insert(session.clone(), LeasedSession { attach, lost: lost.clone(), attach_confirmed: false });
        lost
    }

    /// Releases a session or a waiter.
    pub(super) fn release(&self, session: SessionId, holder: HolderId) {
        let mut state = self.state();
        state.held.remove(&session);
        state.pending_releases.push(ReleaseParams { session, holder });
        drop(state);
        self.released.notify_one();
    }

    /// The attach parameters of all sessions in use.
    pub(super) fn attach_params(&self) -> Vec<AttachParams> {
        self.state().held.values().map(|session| session.attach.clone()).collect()
    }

    /// Takes all pending releases.
    pub(super) fn take_releases(&self) -> Vec<ReleaseParams> {
        std::mem::take(&mut self.state().pending_releases)
    }

    /// Puts back releases that failed.
    pub(super) fn requeue_releases(&self, releases: Vec<ReleaseParams>) {
        self.state().pending_releases.extend(releases);
    }

    /// Marks a session that a wake-up named, and returns whether this worker holds it. Anyone may
    /// publish a wake-up, so the store decides.
    pub(super) fn mark_for_recheck(&self, session: &SessionId) -> bool {
        let mut state = self.state();
        let Some(session) = state.held.get_mut(session) else { return false };
        session.attach.must_exist = !session.attach_confirmed;
        true
    }

    /// Records that the store knows the session.
    pub(super) fn confirm_attach(&self, session: &SessionId) {
        if let Some(session) = self.state().held.get_mut(session) {
            (session.attach_confirmed, session.attach.must_exist) = (true, false);
        }
    }

    /// Ends a session.
    pub(super) fn mark_lost(&self, session: &SessionId) {
        if let Some(session) = self.state().held.get(session) {
            session.lost.cancel();
        }
    }
}
