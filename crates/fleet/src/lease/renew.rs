//! The renewal task: sends the store which sessions are held and which have ended, and receives
//! wake-ups about them.
//!
//! One task sends everything in order, so an attach in flight can never hold a session again that
//! was released after it.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{AttachParams, Attached, ReleaseParams};
use tidemill_core::wake::Wake;
use tokio_util::sync::CancellationToken;

use super::sessions::{CloseReason, ConnectionState, SessionEntry, SessionTable};
use super::{LeaseClient, unanswered};
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

impl LeaseClient {
    /// Renews sessions and listens to wake-ups until `stop`, then sends the remaining releases.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        tokio::join!(renew(self, &stop), listen(self, &stop));
    }
}

/// Passes wake-ups to waiters and to held sessions.
async fn listen(client: &LeaseClient, stop: &CancellationToken) {
    let mut wakes = client.store.subscribe();
    loop {
        let wake = tokio::select! {
            wake = wakes.next() => wake,
            () = stop.cancelled() => return,
        };
        match wake {
            Some(Wake::Capacity(kind)) => client.waiters.notify(Some(&kind)),
            Some(Wake::Session(session)) => client.sessions.recheck(&session),
            Some(Wake::Everything) => {
                client.waiters.notify(None);
                if client.options.rechecks_everything {
                    client.sessions.recheck_all();
                }
            }
            Some(_) => {}
            None => {
                tokio::time::sleep(MAX_RENEWAL_RETRY_DELAY).await;
                wakes = client.store.subscribe();
            }
        }
    }
}

async fn renew(client: &LeaseClient, stop: &CancellationToken) {
    let (interval, mut retry_delay) = (renewal_interval(client), None);
    let (mut last_full, mut stopping_since) = (Instant::now(), None);
    loop {
        let stopping = stop.is_cancelled();
        let batch = collect_batch(client, last_full.elapsed());
        if batch.is_full {
            last_full = Instant::now();
        }
        let (is_idle, succeeded) = (batch.is_empty(), send_batch(client, batch).await);
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
            None => wait_for_work(client, stop, last_full + interval).await,
        }
    }
}

/// How often all sessions are renewed.
fn renewal_interval(client: &LeaseClient) -> Duration {
    timing::renewal_interval(client.options.lease)
}

impl RenewalBatch {
    fn is_empty(&self) -> bool {
        self.attaches.is_empty() && self.releases.is_empty()
    }
}

/// Waits until there is something to send.
async fn wait_for_work(client: &LeaseClient, stop: &CancellationToken, next: Instant) {
    let (next, recheck_all) = {
        let table = client.sessions.table();
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
        () = client.sessions.changed() => {}
        () = tokio::time::sleep_until(next.into()) => {}
        () = stop.cancelled() => {}
    }
}

/// Collects all sessions if a renewal or a full recheck is due, the urgent ones, and the pending
/// releases.
fn collect_batch(client: &LeaseClient, since: Duration) -> RenewalBatch {
    let mut table = client.sessions.table();
    end_expired_kept(&mut table);
    let is_full = since >= renewal_interval(client) || (since >= RECHECK_ALL_DELAY && table.recheck_all);
    if is_full {
        table.recheck_all = false;
    }
    let mut urgent = std::mem::take(&mut table.urgent);
    if !table.recheck.is_empty() && table.rechecked_at.is_none_or(|at| at.elapsed() >= MIN_RECHECK_INTERVAL) {
        urgent.extend(table.recheck.drain());
        table.rechecked_at = Some(Instant::now());
    }
    // A kept session is attached once: its time runs from its disconnect and is not extended.
    let is_sent = |session: &SessionId, held: &SessionEntry| {
        urgent.contains(session) || (is_full && matches!(held.connection, ConnectionState::Connected { .. }))
    };
    let sent = table.held.iter_mut().filter(|(session, held)| is_sent(session, held));
    let attaches = sent.map(|(session, held)| attach_call(client, session, held)).collect();
    let releases = std::mem::take(&mut table.pending_releases);
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

fn attach_call(client: &LeaseClient, session: &SessionId, held: &mut SessionEntry) -> AttachCall {
    let params = attach_params(client, session, held);
    held.attach_sent = true;
    AttachCall { generation: held.generation, was_recheck: std::mem::take(&mut held.needs_recheck), params }
}

fn attach_params(client: &LeaseClient, session: &SessionId, held: &SessionEntry) -> AttachParams {
    let (connected, take_over) = match &held.connection {
        ConnectionState::Connected { attach_result, .. } => (true, attach_result.is_some()),
        ConnectionState::Kept(_) => (false, false),
    };
    let keep = held.spec.remaining_keep();
    let ttl = if connected { client.options.lease } else { keep };
    AttachParams {
        must_exist: held.must_exist(),
        session: session.clone(),
        worker: held.spec.worker.clone(),
        holder: held.spec.holder.clone(),
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
async fn send_batch(client: &LeaseClient, batch: RenewalBatch) -> bool {
    let released = send_releases(client, batch.releases).await;
    send_attaches(client, batch.attaches).await && released
}

async fn send_attaches(client: &LeaseClient, attaches: Vec<AttachCall>) -> bool {
    let mut succeeded = true;
    for chunk in attaches.chunks(MAX_BATCH_SESSIONS) {
        let calls: Vec<_> = chunk.iter().map(|call| call.params.clone()).collect();
        let result = with_timeout(client, client.fleet().attach(&calls)).await;
        client.record_store_result(&result);
        match result {
            Ok(results) => {
                chunk.iter().zip(results).for_each(|(call, result)| apply_result(client, call, result))
            }
            Err(_) => {
                succeeded = false;
                // No session is closed because the store is unavailable.
                requeue_attaches(&mut client.sessions.table(), chunk);
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

async fn send_releases(client: &LeaseClient, releases: Vec<ReleaseParams>) -> bool {
    let mut succeeded = true;
    for chunk in releases.chunks(MAX_BATCH_SESSIONS) {
        let result = with_timeout(client, client.fleet().release(chunk)).await;
        client.record_store_result(&result);
        if result.is_err() {
            succeeded = false;
            client.sessions.table().requeue_releases(chunk);
        }
    }
    succeeded
}

/// A store that does not answer in time counts as unavailable.
async fn with_timeout<T>(
    client: &LeaseClient,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(client.options.lease.min(RENEWAL_TIMEOUT), call)
        .await
        .unwrap_or_else(|_| Err(unanswered()))
}

/// Applies the store's answer about a session.
fn apply_result(
    client: &LeaseClient,
    AttachCall { generation, params: call, .. }: &AttachCall,
    result: Attached,
) {
    let mut table = client.sessions.table();
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
            client.sessions.notify_changed();
        }
        Attached::Lost => {
            held.close_connection(CloseReason::Lost);
            table.urgent.remove(&call.session);
            table.held.remove(&call.session);
        }
    }
}
