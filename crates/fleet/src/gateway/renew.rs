//! The renewal task: sends the store which sessions are held and which have ended.
//!
//! One task sends everything in order, so an attach in flight can never hold a session again that
//! was released after it.

use std::time::{Duration, Instant};

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{AttachParams, Attached, ReleaseParams};
use tokio_util::sync::CancellationToken;

use super::sessions::{CloseReason, ConnectionState, HeldSession, SessionTable};
use super::shared::GatewayShared;
use crate::timing::{self, MAX_RENEWAL_RETRY_DELAY, RENEWAL_TIMEOUT};

/// The most sessions per call: a script must not block its server for long.
const MAX_BATCH_SESSIONS: usize = 500;

/// Delay before all sessions are rechecked after a lost wake-up: such events come in bursts.
const RECHECK_ALL_DELAY: Duration = Duration::from_millis(500);

/// The least interval between rechecks: anyone may publish a flood of wake-ups.
const MIN_RECHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How long the last releases may take.
const FINAL_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Delays between retries when the store does not answer.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);

const _: () = assert!(MAX_RETRY_DELAY.as_millis() <= MAX_RENEWAL_RETRY_DELAY.as_millis());

/// What is sent to the store next.
#[derive(Debug, Default)]
struct RenewalBatch {
    /// Whether it covers all connected sessions.
    is_full: bool,
    attaches: Vec<AttachCall>,
    releases: Vec<ReleaseParams>,
}

/// An attach of one session.
#[derive(Debug)]
struct AttachCall {
    /// The connection that it is about.
    generation: u64,
    /// Whether a wake-up caused it.
    was_recheck: bool,
    params: AttachParams,
}

/// Renews sessions until `stop`, then sends the remaining releases.
pub(crate) async fn run(shared: &GatewayShared, stop: CancellationToken) {
    let (interval, mut retry_delay) = (renewal_interval(shared), None);
    let (mut last_full, mut stopping_since) = (Instant::now(), None);
    loop {
        let stopping = stop.is_cancelled();
        let batch = collect_batch(shared, last_full.elapsed());
        if batch.is_full {
            last_full = Instant::now();
        }
        let (is_idle, succeeded) = (batch.is_empty(), send_batch(shared, batch).await);
        retry_delay = (!succeeded).then(|| {
            retry_delay
                .map_or(MIN_RETRY_DELAY, |retry_delay: Duration| (retry_delay * 2).min(MAX_RETRY_DELAY))
        });
        if stopping
            && (is_idle || stopping_since.get_or_insert_with(Instant::now).elapsed() > FINAL_RELEASE_TIMEOUT)
        {
            return;
        }
        match retry_delay {
            Some(retry_delay) => tokio::time::sleep(retry_delay).await,
            None => wait_for_work(shared, &stop, last_full + interval).await,
        }
    }
}

/// How often all sessions are renewed.
fn renewal_interval(shared: &GatewayShared) -> Duration {
    timing::renewal_interval(shared.options.lease.duration)
}

impl RenewalBatch {
    fn is_empty(&self) -> bool {
        self.attaches.is_empty() && self.releases.is_empty()
    }
}

/// Waits until there is something to send.
async fn wait_for_work(shared: &GatewayShared, stop: &CancellationToken, next: Instant) {
    let (next, recheck_all) = {
        let table = shared.sessions.table();
        let keep_ends = table.held.values().filter_map(|held| match held.connection {
            ConnectionState::Kept(until) => Some(until),
            ConnectionState::Connected { .. } => None,
        });
        let recheck =
            table.rechecked_at.filter(|_| !table.recheck.is_empty()).map(|at| at + MIN_RECHECK_INTERVAL);
        (keep_ends.chain(recheck).fold(next, Instant::min), table.recheck_all)
    };
    let next = if recheck_all { next.min(Instant::now() + RECHECK_ALL_DELAY) } else { next };
    tokio::select! {
        () = shared.sessions.changed() => {}
        () = tokio::time::sleep_until(next.into()) => {}
        () = stop.cancelled() => {}
    }
}

/// Collects all sessions if a renewal or a full recheck is due, the urgent ones, and the pending
/// releases.
fn collect_batch(shared: &GatewayShared, since: Duration) -> RenewalBatch {
    let mut table = shared.sessions.table();
    end_expired_kept(&mut table);
    let is_full = since >= renewal_interval(shared) || (since >= RECHECK_ALL_DELAY && table.recheck_all);
    if is_full {
        table.recheck_all = false;
    }
    let mut urgent = std::mem::take(&mut table.urgent);
    if !table.recheck.is_empty() && table.rechecked_at.is_none_or(|at| at.elapsed() >= MIN_RECHECK_INTERVAL) {
        urgent.extend(table.recheck.drain());
        table.rechecked_at = Some(Instant::now());
    }
    // A kept session is attached once: its time runs from its disconnect and is not extended.
    let is_sent = |session: &SessionId, held: &HeldSession| {
        urgent.contains(session) || (is_full && matches!(held.connection, ConnectionState::Connected { .. }))
    };
    let sent = table.held.iter_mut().filter(|(session, held)| is_sent(session, held));
    let attaches = sent.map(|(session, held)| attach_call(shared, session, held)).collect();
    let releases = std::mem::take(&mut table.pending_releases).into_iter();
    let releases = releases.map(|session| ReleaseParams { session, holder: shared.holder.clone() }).collect();
    RenewalBatch { is_full, attaches, releases }
}

/// Ends kept sessions whose time is over.
fn end_expired_kept(table: &mut SessionTable) {
    let now = Instant::now();
    let expired = table
        .held
        .iter()
        .filter(|(_, held)| matches!(held.connection, ConnectionState::Kept(until) if until <= now));
    let expired: Vec<_> = expired.map(|(session, _)| session.clone()).collect();
    expired.iter().for_each(|session| table.end(session));
}

fn attach_call(shared: &GatewayShared, session: &SessionId, held: &mut HeldSession) -> AttachCall {
    let params = attach_params(shared, session, held);
    held.attach_sent = true;
    AttachCall { generation: held.generation, was_recheck: std::mem::take(&mut held.needs_recheck), params }
}

fn attach_params(shared: &GatewayShared, session: &SessionId, held: &HeldSession) -> AttachParams {
    let (connected, take_over) = match &held.connection {
        ConnectionState::Connected { attach_result, .. } => (true, attach_result.is_some()),
        ConnectionState::Kept(_) => (false, false),
    };
    let keep = held.spec.remaining_keep();
    let ttl = if connected { shared.options.lease.duration } else { keep };
    AttachParams {
        must_exist: held.must_exist(),
        session: session.clone(),
        worker: held.spec.worker.clone(),
        holder: shared.holder.clone(),
        ttl,
        keep,
        connected,
        take_over,
        detail: held.spec.detail.clone(),
        started_at: held.spec.started_at,
    }
}

/// Sends a batch and requeues what failed. Returns whether all of it succeeded.
///
/// Releases go first. Otherwise a session that was ended and taken back would be released after its
/// attach.
async fn send_batch(shared: &GatewayShared, batch: RenewalBatch) -> bool {
    let released = send_releases(shared, batch.releases).await;
    send_attaches(shared, batch.attaches).await && released
}

async fn send_attaches(shared: &GatewayShared, attaches: Vec<AttachCall>) -> bool {
    let mut succeeded = true;
    for chunk in attaches.chunks(MAX_BATCH_SESSIONS) {
        let calls: Vec<_> = chunk.iter().map(|call| call.params.clone()).collect();
        let result = with_timeout(shared, shared.fleet().attach(&calls)).await;
        shared.record_store_result(&result);
        match result {
            Ok(results) => {
                chunk.iter().zip(results).for_each(|(call, result)| apply_result(shared, call, result))
            }
            Err(_) => {
                succeeded = false;
                // No session is closed because the store is unavailable.
                requeue_attaches(&mut shared.sessions.table(), chunk);
            }
        }
    }
    succeeded
}

/// Requeues attaches that failed.
fn requeue_attaches(table: &mut SessionTable, chunk: &[AttachCall]) {
    for AttachCall { generation, was_recheck, params } in chunk {
        if let Some(held) = table.held.get_mut(&params.session).filter(|held| held.generation == *generation)
        {
            held.needs_recheck |= was_recheck;
        }
        table.urgent.insert(params.session.clone());
    }
}

async fn send_releases(shared: &GatewayShared, releases: Vec<ReleaseParams>) -> bool {
    let mut succeeded = true;
    for chunk in releases.chunks(MAX_BATCH_SESSIONS) {
        let result = with_timeout(shared, shared.fleet().release(chunk)).await;
        shared.record_store_result(&result);
        if result.is_err() {
            succeeded = false;
            shared.sessions.table().requeue_releases(chunk.iter().map(|release| &release.session));
        }
    }
    succeeded
}

/// A store that does not answer in time counts as unavailable.
async fn with_timeout<T>(
    shared: &GatewayShared,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let timed_out =
        || Error::Unavailable { message: "the store did not answer in time".into(), source: None };
    tokio::time::timeout(shared.options.lease.duration.min(RENEWAL_TIMEOUT), call)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

/// Applies the store's answer about a session.
fn apply_result(
    shared: &GatewayShared,
    AttachCall { generation, params: call, .. }: &AttachCall,
    result: Attached,
) {
    let mut table = shared.sessions.table();
    let Some(held) = table.held.get_mut(&call.session).filter(|held| held.generation == *generation) else {
        return;
    };
    held.attach_confirmed = true;
    if let ConnectionState::Connected { attach_result, .. } = &mut held.connection
        && let Some(attach_result) = attach_result.take()
    {
        let _ = attach_result.send(result);
    }
    match result {
        Attached::Held => {}
        Attached::Closing => {
            held.close_connection(CloseReason::Closed);
            table.end(&call.session);
            shared.sessions.notify_changed();
        }
        Attached::Lost => {
            held.close_connection(CloseReason::Lost);
            table.urgent.remove(&call.session);
            table.held.remove(&call.session);
        }
    }
}
