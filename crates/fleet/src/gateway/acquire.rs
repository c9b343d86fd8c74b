//! Acquiring a browser for a client, and the errors of one that gets none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tidemill_core::Error;
use tidemill_core::fleet::{Offer, SessionId, WorkerKind};
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ListWorkersParams, WaitParams};

use super::http_error::HttpError;
use super::request::BrowserRequest;
use super::shared::GatewayShared;
use crate::lease::{PendingLease, WaitPolicy};

/// How long the store keeps a waiter that does not poll.
const WAITER_TTL: Duration = Duration::from_secs(3);

/// How often a waiter polls without a wake-up. Often enough to stay in the queue when an answer is
/// late.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long there may be no worker at all before a client gets an error. Longer than the heartbeat
/// interval: by then a store that has lost its data knows all workers again. A browser in use, or
/// being replaced, counts as a worker.
const NO_WORKER_TIMEOUT: Duration = Duration::from_secs(8);

/// Kinds that clients may wait for while there is no worker. Each kind and offer has a queue with
/// its own limit, and clients choose both. So other kinds have a queue only while such a worker
/// exists.
const WELL_KNOWN_KINDS: [&str; 3] = ["chromium", "firefox", "webkit"];

/// A client's request on its way to a browser.
#[derive(Debug)]
pub(crate) struct Acquisition {
    pub(crate) lease: PendingLease,
    policy: QueuePolicy,
}

impl Acquisition {
    /// Prepares the lease of what a client requested.
    pub(crate) fn new(shared: &Arc<GatewayShared>, request: &BrowserRequest) -> Result<Self, HttpError> {
        let options = &shared.options;
        let params = LeaseParams {
            session: SessionId::generate(),
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
        let lease = PendingLease::new(&shared.leases, params, deadline);
        Ok(Self { lease, policy: QueuePolicy { shared: shared.clone(), no_worker_since: None } })
    }

    /// Polls until there is a browser, or no chance of one.
    pub(crate) async fn acquire(&mut self) -> Result<Grant, HttpError> {
        let stopping = self.policy.shared.stopping.clone();
        if must_find_worker_first(&self.lease.params) {
            let wait = self.lease.params.wait.take();
            let leased = self.lease.ask().await?;
            self.lease.params.wait = wait;
            match leased {
                Leased::Granted(grant) => return Ok(grant),
                Leased::Refused { workers: 0, .. } => {
                    self.policy.check_worker_exists(&self.lease.params).await?;
                }
                _ => {}
            }
        }
        tokio::select! {
            // A browser that is granted at the last moment is used.
            biased;
            acquired = self.lease.acquire(&mut self.policy) => acquired,
            () = stopping.cancelled() => Err(HttpError::stopping()),
        }
    }
}

/// Decides how long a client waits.
#[derive(Debug)]
struct QueuePolicy {
    shared: Arc<GatewayShared>,
    /// Since when there has been no worker at all.
    no_worker_since: Option<Instant>,
}

impl WaitPolicy for QueuePolicy {
    type Error = HttpError;

    async fn check(&mut self, lease: &PendingLease, answer: Result<Leased, Error>) -> Result<(), HttpError> {
        let params = &lease.params;
        let (workers, refused) = match answer? {
            Leased::Granted(_) => return Ok(()),
            Leased::Waiting { workers, .. } => (workers, None),
            Leased::Refused { workers, waiting } => (workers, Some(waiting)),
        };
        if workers == 0 {
            self.check_version(params).await?;
        }
        match refused {
            // The clients ahead wait for a browser that exists or did a moment ago.
            Some(waiting) if params.wait.is_some() => Err(queue_full(waiting)),
            Some(_) if workers == 0 => Err(no_worker_error(params)),
            Some(_) => Err(HttpError::busy("busy", format!("no {} is free", params.kind), POLL_INTERVAL)),
            None => self.check_deadlines(lease, workers),
        }
    }
}

impl QueuePolicy {
    fn check_deadlines(&mut self, lease: &PendingLease, workers: u32) -> Result<(), HttpError> {
        let now = Instant::now();
        self.no_worker_since = (workers == 0).then(|| self.no_worker_since.unwrap_or(now));
        if self.no_worker_since.is_some_and(|since| now.duration_since(since) >= NO_WORKER_TIMEOUT) {
            return Err(no_worker_error(&lease.params));
        }
        if lease.is_overdue() {
            let (kind, queue_time) = (&lease.params.kind, self.shared.options.queue_time);
            let message = format!("no {kind} became free within {queue_time:?}");
            return Err(HttpError::busy("queue_time", message, POLL_INTERVAL));
        }
        Ok(())
    }

    /// Lets the client wait for an existing worker, even one that takes no sessions now.
    async fn check_worker_exists(&self, params: &LeaseParams) -> Result<(), HttpError> {
        let served = self.list_offers(&params.kind).await?;
        if served.iter().any(|offer| params.offers.contains(offer)) {
            return Ok(());
        }
        self.check_version(params).await?;
        Err(no_worker_error(params))
    }

    /// Tells a client of Playwright which versions are served if none fits: waiting does not change
    /// its version.
    async fn check_version(&self, params: &LeaseParams) -> Result<(), HttpError> {
        if !wants_playwright_version(params) {
            return Ok(());
        }
        let (wanted, mut versions) = (&params.offers[0], self.list_offers(&params.kind).await?);
        let fits = |offer: &_| params.offers.contains(offer);
        versions.retain(|offer| fits(offer) || offer.as_str().starts_with("playwright-"));
        if versions.is_empty() || versions.iter().any(fits) {
            return Ok(());
        }
        versions.sort_unstable();
        versions.dedup();
        Err(version_mismatch(wanted.as_str(), &versions.iter().map(ToString::to_string).collect::<Vec<_>>()))
    }

    /// The offers of all workers of the kind.
    async fn list_offers(&self, kind: &WorkerKind) -> Result<Vec<Offer>, HttpError> {
        let (mut offers, mut cursor) = (Vec::new(), None);
        loop {
            let list = ListWorkersParams { kind: Some(kind), cursor, limit: 256 };
            let page = self.shared.fleet().list_workers(list).await?;
            offers.extend(page.items.into_iter().map(|info| info.worker.offer));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(offers);
            }
        }
    }
}

/// Whether to check first that there is something to wait for. Not after a rejected browser: the
/// client would lose its place in the queue by a call that does not wait.
fn must_find_worker_first(params: &LeaseParams) -> bool {
    let is_well_known = WELL_KNOWN_KINDS.contains(&params.kind.as_str()) && !wants_playwright_version(params);
    !is_well_known && params.wait.is_some() && params.rejected.is_empty()
}

fn wants_playwright_version(params: &LeaseParams) -> bool {
    params.offers[0].as_str().starts_with("playwright-")
}

fn no_worker_error(params: &LeaseParams) -> HttpError {
    let offers: Vec<_> = params.offers.iter().map(ToString::to_string).collect();
    let message = format!("there is no {} that speaks {}", params.kind, offers.join(" or "));
    HttpError::busy("no_worker", message, NO_WORKER_TIMEOUT)
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
