//! Opening a session: a place, a browser that answers, and the handshake between it and the client.

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

use super::desk::Desk;
use super::holdings::{Cut, Hold, Stay, Terms};
use super::place::{Search, Ticket};
use super::refusal::{Refusal, Reply};
use super::wish::Wish;
use crate::wire::{Answer, DialError, Endpoint, Side, Traffic, dial};

/// How many browsers are dialled for one client.
const TRIES: usize = 4;

/// By this header a client learns which session it has.
const SESSION: HeaderName = HeaderName::from_static("x-tidemill-session");

/// A session with a browser that waits for its client's first bytes.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) hold: Hold,
    pub(crate) browser: Side,
    pub(crate) traffic: Arc<Traffic>,
    /// Says when the connection must be closed.
    pub(crate) cut: oneshot::Receiver<Cut>,
    /// When the session has lasted for as long as it may.
    pub(crate) ends: Option<Instant>,
    /// Holds up the end of the gateway.
    pub(crate) visit: TaskTrackerToken,
}

/// Finds a browser for a client, and answers it in the browser's words.
pub(crate) async fn open(
    desk: &Arc<Desk>,
    wish: &Wish,
    client: &HeaderMap,
) -> Result<(Reply, Opened), Refusal> {
    check_keep(desk, wish)?;
    let mut ticket = Ticket::new(desk.clone());
    let mut search = Search::new(desk, wish, &ticket)?;
    let mut failed: Option<Refusal> = None;
    for _ in 0..TRIES {
        let grant;
        (ticket, grant) = match (search.place(ticket).await, failed) {
            (Ok(placed), _) => placed,
            // Why the browser there was did not want this client says more than that there is no other.
            (Err(_), Some(failed)) if search.lease.wait.is_none() => return Err(failed),
            (Err(refusal), _) => return Err(refusal),
        };
        match reach(desk, &grant, client).await {
            Ok(answer) => {
                let terms = terms(desk, &search.lease, &grant);
                let (opened, _) = enter(desk, (ticket.used(), terms), answer.side, false);
                return Ok((answered(&answer.headers, &opened.hold.session), opened));
            }
            Err(error) => {
                tracing::warn!(worker = %grant.worker, %error, "a browser cannot be had; another is tried");
                desk.metrics.undialled();
                // A client of the wrong version is wrong for others like it, too.
                if matches!(&error, DialError::Refused { status, .. } if *status == StatusCode::PRECONDITION_REQUIRED)
                {
                    search.lease.wait = None;
                }
                search.lease.rejected.push(grant.worker);
                failed = Some(unreachable(error));
            }
        }
    }
    Err(failed.unwrap_or_else(Refusal::stopping))
}

/// No session is kept for longer than this gateway allows.
pub(crate) fn check_keep(desk: &Desk, wish: &Wish) -> Result<(), Refusal> {
    let most = desk.options.keep_most;
    if wish.keep > most {
        return Err(Refusal::invalid(format!("a session is kept for {most:?} at most")));
    }
    Ok(())
}

/// What the store is told of a session on this browser.
pub(crate) fn terms(desk: &Desk, lease: &LeaseParams, grant: &Grant) -> Terms {
    let started_at = desk.store.clock().now();
    let (member, detail, ends) = (grant.worker.clone(), lease.detail.clone(), ends(desk, started_at));
    Terms { member, keep: lease.keep, detail, started_at, ends }
}

/// When a session that began then has lasted for as long as it may, however often it was come back to.
pub(crate) fn ends(desk: &Desk, started_at: Timestamp) -> Option<Instant> {
    let left = desk.store.clock().now().until(started_at.after(desk.options.session_time?));
    Instant::now().checked_add(left)
}

async fn reach(desk: &Desk, grant: &Grant, client: &HeaderMap) -> Result<Answer, DialError> {
    let endpoint = Endpoint::parse(&grant.endpoint).ok_or(DialError::NotHttp)?;
    let began = Instant::now();
    let answer = dial(&endpoint, client, desk.options.dial_time).await;
    desk.metrics.dial.observe(began.elapsed());
    answer
}

/// Enters a session that has a client. With `taken`, it is taken over from whoever has it, and the answer to that comes
/// by the receiver.
pub(crate) fn enter(
    desk: &Arc<Desk>,
    (session, terms): (SessionId, Terms),
    browser: Side,
    taken: bool,
) -> (Opened, oneshot::Receiver<Attached>) {
    let (cutter, cut) = oneshot::channel();
    let (judge, verdict) = oneshot::channel();
    let traffic = Arc::<Traffic>::default();
    let stay =
        Stay::Connected { cut: Some(cutter), traffic: traffic.clone(), verdict: taken.then_some(judge) };
    let ends = terms.ends;
    let turn = desk.holdings.enter(&session, terms, stay);
    let (hold, visit) = (Hold::new(desk.clone(), session, turn), desk.visits.token());
    (Opened { hold, browser, traffic, cut, ends, visit }, verdict)
}

/// What a client is told whose browser does not answer.
pub(crate) fn unreachable(error: DialError) -> Refusal {
    match error {
        DialError::Refused { status, words } if status == StatusCode::PRECONDITION_REQUIRED => {
            Refusal::new(status, "playwright_version", words)
        }
        // What the browser said may name its address.
        DialError::TimedOut => {
            Refusal::new(StatusCode::GATEWAY_TIMEOUT, "dial", "the browser did not answer in time")
        }
        _ => Refusal::new(StatusCode::BAD_GATEWAY, "dial", "no browser that was tried could be reached"),
    }
}

/// The browser's answer, for the client.
pub(crate) fn answered(browser: &HeaderMap, session: &SessionId) -> Reply {
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
        headers.insert(SESSION, session);
    }
    reply
}
