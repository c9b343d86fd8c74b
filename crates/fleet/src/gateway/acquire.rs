//! Acquiring a browser: a lease, or a place in the store's queue until there is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tidemill_core::Error;
use tidemill_core::fleet::{Offer, SessionId};
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ListWorkersParams, WaitParams};

use super::http_error::HttpError;
use super::request::BrowserRequest;
use super::shared::GatewayShared;

/// How long the store keeps a waiter that does not poll.
const WAITER_TTL: Duration = Duration::from_secs(3);

/// How often a waiter polls without a wake-up. Often enough to stay in the queue when an answer is
/// late.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a lease call is repeated when its answer is lost. The session id is the same, so a
/// granted lease is granted again.
const MAX_LEASE_ATTEMPTS: u32 = 3;

/// No retry starts later than this after the first try. A store that hangs will not answer the next
/// try either.
const LEASE_RETRY_WINDOW: Duration = Duration::from_secs(3);

/// Delay between tries, in which the connection is reopened.
const LEASE_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How long there may be no worker at all before a client gets an error. Longer than the heartbeat
/// interval: by then a store that has lost its data knows all workers again. A browser in use, or
/// being replaced, counts as a worker.
const NO_WORKER_TIMEOUT: Duration = Duration::from_secs(8);

/// Kinds that clients may wait for while there is no worker. Each kind and offer has a queue with
/// its own limit, and clients choose both. So other kinds have a queue only while such a worker
/// exists.
const WELL_KNOWN_KINDS: [&str; 3] = ["chromium", "firefox", "webkit"];

/// A session that the store may know. Dropping it releases the session.
#[derive(Debug)]
pub(crate) struct PendingSession {
    shared: Arc<GatewayShared>,
    pub(crate) session: SessionId,
    release_on_drop: bool,
}

impl PendingSession {
    pub(crate) fn new(shared: Arc<GatewayShared>) -> Self {
        Self { shared, session: SessionId::generate(), release_on_drop: true }
    }

    /// Hands the session over to the session table.
    pub(crate) fn into_session(mut self) -> SessionId {
        self.release_on_drop = false;
        self.session.clone()
    }
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        if self.release_on_drop {
            self.shared.sessions.release(&self.session);
        }
    }
}

/// A client's request on its way to a browser.
#[derive(Debug)]
pub(crate) struct Acquisition {
    shared: Arc<GatewayShared>,
    pub(crate) lease: LeaseParams,
    deadline: Instant,
    /// Since when there has been no worker at all.
    no_worker_since: Option<Instant>,
}

impl Acquisition {
    /// Prepares the lease of what a client requested.
    pub(crate) fn new(
        shared: &Arc<GatewayShared>,
        request: &BrowserRequest,
        pending: &PendingSession,
    ) -> Result<Self, HttpError> {
        let options = &shared.options;
        let lease = LeaseParams {
            session: pending.session.clone(),
            kind: request.kind.clone(),
            offers: request.offers()?,
            holder: shared.holder.clone(),
            ttl: options.lease.duration,
            keep: request.keep,
            detail: request.encode_detail()?,
            rejected: Vec::new(),
            wait: (options.queue_size > 0)
                .then_some(WaitParams { max_waiting: options.queue_size, ttl: WAITER_TTL }),
            defaults: options.worker_defaults,
        };
        let deadline = Instant::now() + options.queue_time;
        Ok(Self { shared: shared.clone(), lease, deadline, no_worker_since: None })
    }

    /// Polls until there is a browser, or no chance of one.
    pub(crate) async fn acquire(
        &mut self,
        mut pending: PendingSession,
    ) -> Result<(PendingSession, Grant), HttpError> {
        let mut leased;
        if self.must_find_worker_first() {
            let wait = self.lease.wait.take();
            (pending, leased) = self.try_lease(pending).await?;
            self.lease.wait = wait;
            match leased {
                Leased::Granted(grant) => return Ok((pending, grant)),
                Leased::Refused { workers: 0, .. } => self.check_worker_exists().await?,
                _ => {}
            }
        }
        (pending, leased) = self.try_lease(pending).await?;
        if let Leased::Granted(grant) = leased {
            return Ok((pending, grant));
        }
        self.check_can_wait(&leased).await?;
        let shared = self.shared.clone();
        // From here on wake-ups arrive. The next lease call sees everything announced before.
        let rejects = !self.lease.rejected.is_empty();
        let waiter = shared.waiters.join(&self.lease.kind, &self.lease.offers[0], rejects);
        loop {
            let leased;
            (pending, leased) = self.try_lease(pending).await?;
            if let Leased::Granted(grant) = leased {
                return Ok((pending, grant));
            }
            self.check_can_wait(&leased).await?;
            let next =
                self.deadline.min(Instant::now() + POLL_INTERVAL.mul_f64(fastrand::f64().mul_add(0.2, 0.8)));
            tokio::select! {
                () = waiter.notified() => {}
                () = tokio::time::sleep_until(next.into()) => {}
                () = shared.stopping.cancelled() => return Err(HttpError::stopping()),
            }
        }
    }

    /// Makes one lease call, in a task that continues if the client disconnects. Only its answer
    /// tells what to release, and the release must not overtake the call.
    async fn try_lease(&self, pending: PendingSession) -> Result<(PendingSession, Leased), HttpError> {
        let (shared, lease) = (self.shared.clone(), self.lease.clone());
        let task = tokio::spawn(async move {
            let started = Instant::now();
            let leased = lease_with_retry(&shared, &lease).await;
            shared.metrics.lease_seconds.observe(started.elapsed());
            shared.record_store_result(&leased);
            (pending, leased)
        });
        let task_failed = |_| HttpError::busy("store", "the store is not available", POLL_INTERVAL);
        let (pending, leased) = task.await.map_err(task_failed)?;
        Ok((pending, leased?))
    }

    /// Returns an error if waiting is useless.
    async fn check_can_wait(&mut self, leased: &Leased) -> Result<(), HttpError> {
        let (workers, refused) = match leased {
            Leased::Granted(_) => return Ok(()),
            Leased::Waiting { workers, .. } => (*workers, None),
            Leased::Refused { workers, waiting } => (*workers, Some(*waiting)),
        };
        if workers == 0 {
            self.check_version().await?;
        }
        match refused {
            // The clients ahead wait for a browser that exists or did a moment ago.
            Some(waiting) if self.lease.wait.is_some() => Err(queue_full(waiting)),
            Some(_) if workers == 0 => Err(self.no_worker_error()),
            Some(_) => Err(HttpError::busy("busy", format!("no {} is free", self.lease.kind), POLL_INTERVAL)),
            None => self.check_deadlines(workers),
        }
    }

    fn check_deadlines(&mut self, workers: u32) -> Result<(), HttpError> {
        let now = Instant::now();
        self.no_worker_since = (workers == 0).then(|| self.no_worker_since.unwrap_or(now));
        if self.no_worker_since.is_some_and(|since| now.duration_since(since) >= NO_WORKER_TIMEOUT) {
            return Err(self.no_worker_error());
        }
        if now >= self.deadline {
            let message =
                format!("no {} became free within {:?}", self.lease.kind, self.shared.options.queue_time);
            return Err(HttpError::busy("queue_time", message, POLL_INTERVAL));
        }
        Ok(())
    }

    fn no_worker_error(&self) -> HttpError {
        let offers: Vec<_> = self.lease.offers.iter().map(ToString::to_string).collect();
        let message = format!("there is no {} that speaks {}", self.lease.kind, offers.join(" or "));
        HttpError::busy("no_worker", message, NO_WORKER_TIMEOUT)
    }

    /// Whether to check first that there is something to wait for. Not after a rejected browser:
    /// the client would lose its place in the queue by a call that does not wait.
    fn must_find_worker_first(&self) -> bool {
        let is_well_known =
            WELL_KNOWN_KINDS.contains(&self.lease.kind.as_str()) && !self.wants_playwright_version();
        !is_well_known && self.lease.wait.is_some() && self.lease.rejected.is_empty()
    }

    fn wants_playwright_version(&self) -> bool {
        self.lease.offers[0].as_str().starts_with("playwright-")
    }

    /// Lets the client wait for an existing worker, even one that takes no sessions now.
    async fn check_worker_exists(&self) -> Result<(), HttpError> {
        let served = self.list_offers().await?;
        if served.iter().any(|offer| self.lease.offers.contains(offer)) {
            return Ok(());
        }
        self.check_version().await?;
        Err(self.no_worker_error())
    }

    /// Tells a client of Playwright which versions are served if none fits: waiting does not change
    /// its version.
    async fn check_version(&self) -> Result<(), HttpError> {
        if !self.wants_playwright_version() {
            return Ok(());
        }
        let (wanted, mut versions) = (&self.lease.offers[0], self.list_offers().await?);
        let fits = |offer: &_| self.lease.offers.contains(offer);
        versions.retain(|offer| fits(offer) || offer.as_str().starts_with("playwright-"));
        if versions.is_empty() || versions.iter().any(fits) {
            return Ok(());
        }
        versions.sort_unstable();
        versions.dedup();
        Err(version_mismatch(wanted.as_str(), &versions.iter().map(ToString::to_string).collect::<Vec<_>>()))
    }

    /// The offers of all workers of the kind.
    async fn list_offers(&self) -> Result<Vec<Offer>, HttpError> {
        let (mut offers, mut cursor) = (Vec::new(), None);
        loop {
            let list = ListWorkersParams { kind: Some(&self.lease.kind), cursor, limit: 256 };
            let page = self.shared.fleet().list_workers(list).await?;
            offers.extend(page.items.into_iter().map(|info| info.worker.offer));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(offers);
            }
        }
    }
}

/// Leases, and repeats the call if its answer is lost: the first try may have leased a browser that
/// nobody would use.
async fn lease_with_retry(shared: &GatewayShared, lease: &LeaseParams) -> Result<Leased, Error> {
    let started = Instant::now();
    for _ in 1..MAX_LEASE_ATTEMPTS {
        match shared.fleet().lease(lease).await {
            Err(error) if error.is_unavailable() && started.elapsed() < LEASE_RETRY_WINDOW => {}
            result => return result,
        }
        tokio::time::sleep(LEASE_RETRY_DELAY).await;
    }
    shared.fleet().lease(lease).await
}

fn version_mismatch(wanted: &str, served: &[String]) -> HttpError {
    let plain = |offer: &str| offer.trim_start_matches("playwright-").to_owned();
    let served: Vec<_> = served.iter().map(|offer| plain(offer)).collect();
    let message = format!(
        "this client is Playwright {}, and there are servers for Playwright {} only: use one of these versions, or connectOverCDP",
        plain(wanted),
        served.join(", ")
    );
    HttpError::new(StatusCode::PRECONDITION_REQUIRED, "playwright_version", message)
}

fn queue_full(waiting: u32) -> HttpError {
    let message = format!("{waiting} clients wait already");
    let error = HttpError::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message);
    HttpError { retry_after: Some(POLL_INTERVAL), ..error }
}
