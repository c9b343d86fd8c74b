//! Opening a session: a lease, a browser that answers, and the client's handshake.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tidemill_core::Timestamp;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{Attached, Grant, LeaseParams};
use tokio::sync::oneshot;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::acquire::Acquisition;
use super::http_error::{HttpError, Reply};
use super::request::BrowserRequest;
use super::shared::GatewayShared;
use crate::lease::{CloseSignal, ConnectionState, HeldSession, SessionSpec};
use crate::net::{DialError, Endpoint, PeerStream, Traffic, UpgradeResponse, dial};

/// The most browsers to dial for one client.
const MAX_DIALS: usize = 4;

/// The response header with the session's id.
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-tidemill-session");

/// A session whose browser has accepted the handshake.
#[derive(Debug)]
pub(crate) struct OpenedSession {
    pub(crate) held: HeldSession,
    pub(crate) browser: PeerStream,
    pub(crate) traffic: Arc<Traffic>,
    /// Tells when and why the connection must close.
    pub(crate) close: CloseSignal,
    /// When the session's longest duration ends.
    pub(crate) deadline: Option<Instant>,
    /// Delays the gateway's shutdown until the client is gone.
    pub(crate) client_token: TaskTrackerToken,
}

/// Finds a browser for a client and returns the browser's response.
pub(crate) async fn open(
    shared: &Arc<GatewayShared>,
    request: &BrowserRequest,
    client: &HeaderMap,
) -> Result<(Reply, OpenedSession), HttpError> {
    check_keep(shared, request)?;
    let mut acquisition = Acquisition::new(shared, request)?;
    let mut failed: Option<HttpError> = None;
    for _ in 0..MAX_DIALS {
        let grant = match (acquisition.acquire().await, failed) {
            (Ok(grant), _) => grant,
            // The reason why a browser refused this client says more than that there is no other.
            (Err(_), Some(failed)) if acquisition.lease.params.wait.is_none() => return Err(failed),
            (Err(error), _) => return Err(error),
        };
        match dial_granted(shared, &grant, client).await {
            Ok(response) => {
                let lease = acquisition.lease;
                let spec = session_spec(shared, &lease.params, &grant);
                let (opened, _) =
                    register_session(shared, lease.into_session(), spec, response.stream, false);
                return Ok((switching_protocols(&response.headers, &opened.held.session), opened));
            }
            Err(error) => {
                tracing::warn!(worker = %grant.worker, %error, "cannot connect to the browser; trying another");
                shared.metrics.record_failed_dial();
                // Waiting does not help a client of the wrong version.
                if matches!(&error, DialError::Refused { status, .. } if *status == StatusCode::PRECONDITION_REQUIRED)
                {
                    acquisition.lease.params.wait = None;
                }
                acquisition.lease.reject(grant.worker);
                failed = Some(dial_error(error));
            }
        }
    }
    Err(failed.unwrap_or_else(HttpError::stopping))
}

/// Rejects a keep time that is longer than this gateway allows.
pub(crate) fn check_keep(shared: &GatewayShared, request: &BrowserRequest) -> Result<(), HttpError> {
    let max = shared.options.keep_most;
    if request.keep > max {
        return Err(HttpError::invalid(format!("a session is kept for {max:?} at most")));
    }
    Ok(())
}

/// The properties of a session on this browser.
pub(crate) fn session_spec(shared: &GatewayShared, lease: &LeaseParams, grant: &Grant) -> SessionSpec {
    let started_at = shared.store.clock().now();
    let (worker, detail, deadline) =
        (grant.worker.clone(), lease.detail.clone(), session_deadline(shared, started_at));
    SessionSpec { holder: lease.holder.clone(), worker, keep: lease.keep, detail, started_at, deadline }
}

/// When a session's longest duration ends, however often clients reconnect.
pub(crate) fn session_deadline(shared: &GatewayShared, started_at: Timestamp) -> Option<Instant> {
    let left = shared.store.clock().now().until(started_at.after(shared.options.session_time?));
    Instant::now().checked_add(left)
}

async fn dial_granted(
    shared: &GatewayShared,
    grant: &Grant,
    client: &HeaderMap,
) -> Result<UpgradeResponse, DialError> {
    let endpoint = Endpoint::parse(&grant.endpoint).ok_or(DialError::NotHttp)?;
    let started = Instant::now();
    let response = dial(&endpoint, client, shared.options.dial_time).await;
    shared.metrics.dial_seconds.observe(started.elapsed());
    response
}

/// Registers a session that has a client. With `take_over`, the session is taken from its current
/// holder, and the receiver gets the store's answer.
pub(crate) fn register_session(
    shared: &Arc<GatewayShared>,
    session: SessionId,
    spec: SessionSpec,
    browser: PeerStream,
    take_over: bool,
) -> (OpenedSession, oneshot::Receiver<Attached>) {
    let (result_sender, attach_result) = oneshot::channel();
    let (close, traffic) = (CloseSignal::default(), Arc::<Traffic>::default());
    let connection = ConnectionState::Connected {
        close: close.clone(),
        traffic: traffic.clone(),
        attach_result: take_over.then_some(result_sender),
    };
    let deadline = spec.deadline;
    let held = HeldSession::new(&shared.leases, session, spec, connection);
    let client_token = shared.browser_clients.token();
    (OpenedSession { held, browser, traffic, close, deadline, client_token }, attach_result)
}

/// The error for a client whose browser does not answer.
pub(crate) fn dial_error(error: DialError) -> HttpError {
    match error {
        DialError::Refused { status, body: words } if status == StatusCode::PRECONDITION_REQUIRED => {
            HttpError::new(status, "playwright_version", words)
        }
        // The browser's text may contain its address, so it is not passed on.
        DialError::TimedOut => {
            HttpError::new(StatusCode::GATEWAY_TIMEOUT, "dial", "the browser did not answer in time")
        }
        _ => HttpError::new(StatusCode::BAD_GATEWAY, "dial", "no browser that was tried could be reached"),
    }
}

/// The browser's response, for the client.
pub(crate) fn switching_protocols(browser: &HeaderMap, session: &SessionId) -> Reply {
    let mut reply = Response::new(Full::<Bytes>::default());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    for (name, value) in browser {
        if name.as_str().starts_with("sec-websocket-") {
            headers.append(name.clone(), value.clone());
        }
    }
    if let Ok(session) = session.as_str().parse() {
        headers.insert(SESSION_HEADER, session);
    }
    reply
}
