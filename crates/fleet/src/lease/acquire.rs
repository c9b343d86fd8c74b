//! Acquiring a browser: a lease, or a place in the store's queue until there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerKey};
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased, ReleaseParams};
use tokio::time::timeout;

use super::{LeaseClient, unanswered};

/// How long a caller waits for the answer to a lease call.
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a lease call is repeated when its answer is lost. The session id is the same, so a
/// granted lease is granted again.
const MAX_LEASE_ATTEMPTS: u32 = 3;

/// No retry starts later than this after the first try. A store that hangs will not answer the next
/// try either.
const LEASE_RETRY_WINDOW: Duration = Duration::from_secs(3);

/// Delay between tries, in which the connection is reopened.
const LEASE_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Decides whether to keep waiting.
pub(crate) trait WaitPolicy: Send {
    /// Why the wait ended.
    type Error;

    /// Returns an error if waiting is useless after this answer, which is not a grant.
    fn check(
        &mut self,
        lease: &PendingLease,
        answer: Result<Leased, Error>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A session that the store may know, with a browser or as a waiter. Dropping it releases the
/// session.
#[derive(Debug)]
pub(crate) struct PendingLease {
    pub(crate) params: LeaseParams,
    /// When the wait is over.
    deadline: Instant,
    release: Arc<ReleaseOnDrop>,
}

/// Shared by a pending lease and its calls, so that the release does not overtake a call.
#[derive(Debug)]
struct ReleaseOnDrop {
    client: Arc<LeaseClient>,
    params: ReleaseParams,
    is_armed: AtomicBool,
}

impl PendingLease {
    pub(crate) fn new(client: &Arc<LeaseClient>, params: LeaseParams, deadline: Instant) -> Self {
        let (session, holder) = (params.session.clone(), params.holder.clone());
        let release = ReleaseOnDrop {
            client: client.clone(),
            params: ReleaseParams { session, holder },
            is_armed: AtomicBool::new(true),
        };
        Self { params, deadline, release: Arc::new(release) }
    }

    /// Whether the wait is over.
    pub(crate) fn is_overdue(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Rejects the browser that was granted: the next call asks for another.
    pub(crate) fn reject(&mut self, worker: WorkerKey) {
        self.params.rejected.push(worker);
    }

    /// Hands the session over to the session table.
    pub(crate) fn into_session(self) -> SessionId {
        self.release.is_armed.store(false, Ordering::Relaxed);
        self.params.session
    }

    /// Asks until there is a browser, or until `policy` ends the wait.
    pub(crate) async fn acquire<P: WaitPolicy>(&self, policy: &mut P) -> Result<Grant, P::Error> {
        if let Some(grant) = self.ask_once(policy).await? {
            return Ok(grant);
        }
        let (client, params) = (&self.release.client, &self.params);
        // From here on wake-ups arrive. The next lease call sees everything announced before.
        let waiter = client.waiters.join(&params.kind, &params.offers[0], !params.rejected.is_empty());
        loop {
            if let Some(grant) = self.ask_once(policy).await? {
                return Ok(grant);
            }
            let poll = client.options.poll_interval.mul_f64(fastrand::f64().mul_add(0.2, 0.8));
            let next = self.deadline.min(Instant::now() + poll);
            tokio::select! {
                () = waiter.notified() => {}
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    async fn ask_once<P: WaitPolicy>(&self, policy: &mut P) -> Result<Option<Grant>, P::Error> {
        match self.ask().await {
            Ok(Leased::Granted(grant)) => Ok(Some(grant)),
            answer => policy.check(self, answer).await.map(|()| None),
        }
    }

    /// Makes one lease call, in a task that continues if the caller is dropped. Only its answer
    /// tells what to release.
    pub(crate) async fn ask(&self) -> Result<Leased, Error> {
        let (release, params) = (self.release.clone(), self.params.clone());
        let call = tokio::spawn(async move {
            let (client, started) = (&release.client, Instant::now());
            let leased = lease_with_retry(client, &params).await;
            client.lease_seconds.observe(started.elapsed());
            client.record_store_result(&leased);
            leased
        });
        // A task that panicked has given no answer.
        timeout(LEASE_TIMEOUT, call).await.ok().and_then(Result::ok).unwrap_or_else(|| Err(unanswered()))
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        if self.is_armed.load(Ordering::Relaxed) {
            self.client.sessions.release(self.params.clone());
        }
    }
}

/// Leases, and repeats the call if its answer is lost: the first try may have leased a browser that
/// nobody would use.
async fn lease_with_retry(client: &LeaseClient, params: &LeaseParams) -> Result<Leased, Error> {
    let started = Instant::now();
    for _ in 1..MAX_LEASE_ATTEMPTS {
        match client.fleet().lease(params).await {
            Err(error) if error.is_unavailable() && started.elapsed() < LEASE_RETRY_WINDOW => {}
            result => return result,
        }
        tokio::time::sleep(LEASE_RETRY_DELAY).await;
    }
    client.fleet().lease(params).await
}
