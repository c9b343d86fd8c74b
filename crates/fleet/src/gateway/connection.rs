//! One connection of a client: requests of HTTP, and after a handshake the bytes of a session.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::desk::Desk;
use super::door::Door;
use super::open::{Opened, open};
use super::query::Query;
use super::reconnect::reconnect;
use super::refusal::{Refusal, Reply};
use super::route::Route;
use super::wish::Wish;
use super::{api, session};
use crate::wire::tune;

/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(10);

/// How long that may be. Clients of Playwright can send their launch options along.
const LONGEST: usize = 32 << 10;

/// Where a request leaves the session that begins when its answer has been sent.
type Slot = Arc<Mutex<Option<Opened>>>;

/// Serves one client until it goes, or has to.
pub(crate) async fn serve(desk: Arc<Desk>, stream: TcpStream, client: SocketAddr) {
    // It is of use as it is.
    let _ = tune(&stream);
    let slot = Slot::default();
    let visit = Visit { desk: desk.clone(), client, slot: slot.clone() };
    let Some((stream, early)) = speak_http(visit).run(stream).await else { return };
    let opened = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(opened) = opened {
        session::run(&desk, opened, stream, early).await;
    }
}

fn speak_http(visit: Visit) -> Http {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(2 * LONGEST)
        .max_header_size(LONGEST);
    Http { builder, visit }
}

struct Http {
    builder: http1::Builder,
    visit: Visit,
}

impl Http {
    /// Answers requests. What is left of the connection after the last, if it did not break.
    async fn run(mut self, stream: TcpStream) -> Option<(TcpStream, bytes::Bytes)> {
        let stopping = self.visit.desk.stopping.clone();
        // Whoever comes after that may still ask once.
        let mut told = stopping.is_cancelled();
        let mut connection =
            self.builder.keep_alive(!told).serve_connection(TokioIo::new(stream), self.visit);
        let mut stopped = pin!(stopping.cancelled());
        let served = poll_fn(|cx| {
            if !told && stopped.as_mut().poll(cx) == Poll::Ready(()) {
                told = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            connection.poll_without_shutdown(cx)
        });
        served.await.ok()?;
        let parts = connection.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }
}

/// What answers a connection's requests.
struct Visit {
    desk: Arc<Desk>,
    client: SocketAddr,
    slot: Slot,
}

impl Service<Request<Incoming>> for Visit {
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (desk, client, slot) = (self.desk.clone(), self.client, self.slot.clone());
        Box::pin(async move {
            Ok(answer(&desk, client, &slot, request).await.unwrap_or_else(|refusal| {
                tracing::debug!(code = refusal.code, message = refusal.message, "a client was refused");
                desk.metrics.refused(refusal.code);
                refusal.reply()
            }))
        })
    }
}

async fn answer(
    desk: &Arc<Desk>,
    client: SocketAddr,
    slot: &Slot,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let (parts, body) = request.into_parts();
    let (headers, path) = (&parts.headers, parts.uri.path());
    Door::check_form(&parts.uri, headers)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let upgrade = wants_websocket(&parts.method, headers)?;
    let route = Route::of(&parts.method, path, upgrade)?;
    let caller = desk.door.admit(&route, headers, &query)?;
    let route = match (route, query.get("session")) {
        (Route::Browser, Some(id)) => Route::of(&parts.method, &format!("/session/{id}"), true)?,
        (route, _) => route,
    };
    let (reply, opened) = match route {
        Route::Browser => {
            let (_visit, mut wish) = (enter(desk)?, Wish::of(path, &query, headers)?);
            (wish.note.client, wish.note.token) = (Some(client.to_string()), caller.token);
            open(desk, &wish, headers).await?
        }
        Route::Session(id) => {
            let _visit = enter(desk)?;
            reconnect(desk, (&id, &caller), headers).await?
        }
        other => {
            let call = api::Call { desk, parts: &parts, query: &query, client, token: caller.token };
            return call.answer(other, body).await;
        }
    };
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    Ok(reply)
}

/// Lets a client in that wants a browser, unless there are to be no more.
pub(crate) fn enter(desk: &Desk) -> Result<tokio_util::task::task_tracker::TaskTrackerToken, Refusal> {
    if desk.stopping.is_cancelled() {
        return Err(Refusal::stopping());
    }
    Ok(desk.visits.token())
}

fn wants_websocket(method: &Method, headers: &HeaderMap) -> Result<bool, Refusal> {
    let upgrade =
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if upgrade && (*method != Method::GET || !headers.contains_key(header::SEC_WEBSOCKET_KEY)) {
        return Err(Refusal::invalid("that is not the handshake of a WebSocket"));
    }
    Ok(upgrade)
}
