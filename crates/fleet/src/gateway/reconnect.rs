//! Reconnecting to an open session by its id.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::Deserialize;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{Attached, SessionInfo};

use super::access::Caller;
use super::http_error::{HttpError, Reply};
use super::open::{OpenedSession, dial_error, register_session, session_deadline, switching_protocols};
use super::protocol::Protocol;
use super::shared::GatewayShared;
use crate::lease::SessionSpec;
use crate::net::{Endpoint, dial};

/// How long the store may take to confirm the takeover.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects a client to an open session. A connected client is disconnected.
pub(crate) async fn reconnect(
    shared: &Arc<GatewayShared>,
    session: &SessionId,
    caller: &Caller,
    client: &HeaderMap,
) -> Result<(Reply, OpenedSession), HttpError> {
    let info = shared.fleet().get_session(session).await;
    shared.leases.record_store_result(&info);
    let info = info?.ok_or_else(|| HttpError::gone("there is no such session; it may be over"))?;
    check_owner(&info, caller)?;
    let deadline = session_deadline(shared, info.started_at);
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Err(HttpError::gone("the session has lasted for as long as it may"));
    }
    let endpoint = endpoint(&info)?;
    // A browser that does not answer changes nothing.
    let response = dial(&endpoint, client, shared.options.dial_time).await.map_err(dial_error)?;
    let SessionInfo { worker, keep, detail, started_at, .. } = info;
    let spec = SessionSpec { holder: shared.holder.clone(), worker, keep, detail, started_at, deadline };
    let (opened, attach_result) = register_session(shared, session.clone(), spec, response.stream, true);
    match tokio::time::timeout(ATTACH_TIMEOUT, attach_result).await {
        Ok(Ok(Attached::Held)) => Ok((switching_protocols(&response.headers, session), opened)),
        Ok(Ok(Attached::Closing)) => Err(HttpError::ended()),
        // Another connection took it over here, another gateway has the session, or it has ended.
        Ok(Ok(Attached::Lost) | Err(_)) => Err(lost_error(shared, session).await?),
        Err(_) => Err(HttpError::busy("store", "the store is not available", Duration::from_secs(1))),
    }
}

/// The error for a client that lost the takeover.
async fn lost_error(shared: &GatewayShared, session: &SessionId) -> Result<HttpError, HttpError> {
    let info = shared.fleet().get_session(session).await?;
    Ok(match info {
        Some(info) if !info.closing => HttpError::taken_over(),
        _ => HttpError::ended(),
    })
}

/// What the session's detail says about its opener.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenerDetail {
    /// Every gateway records the protocol; nothing else does.
    protocol: Option<String>,
    token: Option<String>,
}

/// A caller with the read scope sees all session ids, so the id alone is not enough: the token must
/// be the opener's. A session that no gateway opened, such as a job's, cannot be connected to.
fn check_owner(info: &SessionInfo, caller: &Caller) -> Result<(), HttpError> {
    let opener: OpenerDetail = serde_json::from_slice(&info.detail).unwrap_or_default();
    let message = match opener.protocol {
        None => "that session was not opened through a gateway",
        Some(_) if !caller.is_admin && opener.token != caller.token => {
            "that session was opened with another token"
        }
        Some(_) => return Ok(()),
    };
    Err(HttpError::new(StatusCode::FORBIDDEN, "session", message))
}

fn endpoint(info: &SessionInfo) -> Result<Endpoint, HttpError> {
    if info.offer.as_ref().and_then(Protocol::from_offer) == Some(Protocol::Playwright) {
        let message = "a session over Playwright ends with its connection and cannot be come back to";
        return Err(HttpError::invalid(message));
    }
    Endpoint::parse(&info.endpoint).ok_or_else(|| HttpError::gone("the session's browser is gone"))
}
