//! Coming back to a session that was opened before, by its id.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::Deserialize;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{Attached, SessionInfo};

use super::desk::Desk;
use super::door::Caller;
use super::holdings::Terms;
use super::open::{Opened, answered, ends, enter, unreachable};
use super::protocol::Protocol;
use super::refusal::{Refusal, Reply};
use crate::wire::{Endpoint, dial};

/// How long the store may take to agree.
const AGREED: Duration = Duration::from_secs(5);

/// Connects a client to a session that is there. Whoever was connected to it is cut off.
pub(crate) async fn reconnect(
    desk: &Arc<Desk>,
    (session, caller): (&SessionId, &Caller),
    client: &HeaderMap,
) -> Result<(Reply, Opened), Refusal> {
    let info = desk.fleet().get_session(session).await;
    desk.heard(&info);
    let info = info?.ok_or_else(|| Refusal::gone("there is no such session; it may be over"))?;
    check_owner(&info, caller)?;
    let ends = ends(desk, info.started_at);
    if ends.is_some_and(|ends| ends <= Instant::now()) {
        return Err(Refusal::gone("the session has lasted for as long as it may"));
    }
    let endpoint = endpoint(&info)?;
    // A browser that does not answer leaves everything as it is.
    let answer = dial(&endpoint, client, desk.options.dial_time).await.map_err(unreachable)?;
    let SessionInfo { worker: member, keep, detail, started_at, .. } = info;
    let terms = Terms { member, keep, detail, started_at, ends };
    let (opened, verdict) = enter(desk, (session.clone(), terms), answer.side, true);
    match tokio::time::timeout(AGREED, verdict).await {
        Ok(Ok(Attached::Held)) => Ok((answered(&answer.headers, session), opened)),
        Ok(Ok(Attached::Closing)) => Err(Refusal::ended()),
        // Another connection has its place here, or another gateway has the session; or it is over.
        Ok(Ok(Attached::Lost) | Err(_)) => Err(why_lost(desk, session).await?),
        Err(_) => Err(Refusal::busy("store", "the store is not available", Duration::from_secs(1))),
    }
}

/// What a client is told that did not get a session it wanted to take over.
async fn why_lost(desk: &Desk, session: &SessionId) -> Result<Refusal, Refusal> {
    let info = desk.fleet().get_session(session).await?;
    Ok(match info {
        Some(info) if !info.closing => Refusal::taken_over(),
        _ => Refusal::ended(),
    })
}

/// What a session's opener wrote down.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Opener {
    /// Every gateway says how the session is spoken to; nobody else does.
    protocol: Option<String>,
    token: Option<String>,
}

/// Whoever may read can see the ids of all sessions, so to know one is not enough: it must be the caller's own. What no
/// gateway has opened, such as the browser of a job, is nobody's to connect to.
fn check_owner(info: &SessionInfo, caller: &Caller) -> Result<(), Refusal> {
    let opener: Opener = serde_json::from_slice(&info.detail).unwrap_or_default();
    let why = match opener.protocol {
        None => "that session was not opened through a gateway",
        Some(_) if !caller.is_admin && opener.token != caller.token => {
            "that session was opened with another token"
        }
        Some(_) => return Ok(()),
    };
    Err(Refusal::new(StatusCode::FORBIDDEN, "session", why))
}

fn endpoint(info: &SessionInfo) -> Result<Endpoint, Refusal> {
    if info.offer.as_ref().and_then(Protocol::of) == Some(Protocol::Playwright) {
        let why = "a session over Playwright ends with its connection and cannot be come back to";
        return Err(Refusal::invalid(why));
    }
    Endpoint::parse(&info.endpoint).ok_or_else(|| Refusal::gone("the session's browser is gone"))
}
