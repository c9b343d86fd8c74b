//! A client's connection: HTTP requests, and after a handshake the bytes of a session.

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

use super::access::AccessControl;
use super::http_error::{HttpError, Reply};
use super::open::{OpenedSession, open};
use super::reconnect::reconnect;
use super::request::{BrowserRequest, Query};
use super::route::Route;
use super::shared::GatewayShared;
use super::{api, session};
use crate::net::configure_socket;

/// How long a client may take to send its headers.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest request head. Clients of Playwright can send their launch options in it.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Where a request leaves the session that starts when its response has been sent.
type OpenedSlot = Arc<Mutex<Option<OpenedSession>>>;

/// Serves one client until it disconnects or must be closed.
pub(crate) async fn serve(shared: Arc<GatewayShared>, stream: TcpStream, client: SocketAddr) {
    // Without the options the socket still works.
    let _ = configure_socket(&stream);
    let slot = OpenedSlot::default();
    let service = ClientService { shared: shared.clone(), client, slot: slot.clone() };
    let Some((stream, read_ahead)) = http_connection(service).run(stream).await else { return };
    let opened = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(opened) = opened {
        session::run(&shared, opened, stream, read_ahead).await;
    }
}

fn http_connection(service: ClientService) -> HttpConnection {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(2 * MAX_HEADER_BYTES)
        .max_header_size(MAX_HEADER_BYTES);
    HttpConnection { builder, service }
}

struct HttpConnection {
    builder: http1::Builder,
    service: ClientService,
}

impl HttpConnection {
    /// Serves requests. Returns the stream after an upgrade or the last request, unless it failed.
    async fn run(mut self, stream: TcpStream) -> Option<(TcpStream, bytes::Bytes)> {
        let stopping = self.service.shared.stopping.clone();
        // A client that connects while the gateway stops may still make one request.
        let mut is_shutting_down = stopping.is_cancelled();
        let mut connection =
            self.builder.keep_alive(!is_shutting_down).serve_connection(TokioIo::new(stream), self.service);
        let mut stopped = pin!(stopping.cancelled());
        let served = poll_fn(|cx| {
            if !is_shutting_down && stopped.as_mut().poll(cx) == Poll::Ready(()) {
                is_shutting_down = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            connection.poll_without_shutdown(cx)
        });
        served.await.ok()?;
        let parts = connection.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }
}

/// Handles the requests of a connection.
struct ClientService {
    shared: Arc<GatewayShared>,
    client: SocketAddr,
    slot: OpenedSlot,
}

impl Service<Request<Incoming>> for ClientService {
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (shared, client, slot) = (self.shared.clone(), self.client, self.slot.clone());
        Box::pin(async move {
            Ok(handle_request(&shared, client, &slot, request).await.unwrap_or_else(|error| {
                tracing::debug!(code = error.code, message = error.message, "client request refused");
                shared.metrics.record_refused(error.code);
                error.into_reply()
            }))
        })
    }
}

async fn handle_request(
    shared: &Arc<GatewayShared>,
    client: SocketAddr,
    slot: &OpenedSlot,
    request: Request<Incoming>,
) -> Result<Reply, HttpError> {
    let (parts, body) = request.into_parts();
    let (headers, path) = (&parts.headers, parts.uri.path());
    AccessControl::check_request_target(&parts.uri, headers)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let upgrade = wants_websocket(&parts.method, headers)?;
    let route = Route::from_request(&parts.method, path, upgrade)?;
    let caller = shared.access.authorize(&route, headers, &query)?;
    let route = match (route, query.get("session")) {
        (Route::Browser, Some(id)) => Route::from_request(&parts.method, &format!("/session/{id}"), true)?,
        (route, _) => route,
    };
    let (reply, opened) = match route {
        Route::Browser => {
            let (_client_token, mut browser_request) =
                (admit_client(shared)?, BrowserRequest::from_http(path, &query, headers)?);
            (browser_request.detail.client, browser_request.detail.token) =
                (Some(client.to_string()), caller.token);
            open(shared, &browser_request, headers).await?
        }
        Route::Session(id) => {
            let _client_token = admit_client(shared)?;
            reconnect(shared, &id, &caller, headers).await?
        }
        other => {
            let request =
                api::ApiRequest { shared, parts: &parts, query: &query, client, token: caller.token };
            return request.handle(other, body).await;
        }
    };
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    Ok(reply)
}

/// Admits a client that wants a browser, unless the gateway is stopping.
pub(crate) fn admit_client(
    shared: &GatewayShared,
) -> Result<tokio_util::task::task_tracker::TaskTrackerToken, HttpError> {
    if shared.stopping.is_cancelled() {
        return Err(HttpError::stopping());
    }
    Ok(shared.browser_clients.token())
}

fn wants_websocket(method: &Method, headers: &HeaderMap) -> Result<bool, HttpError> {
    let upgrade =
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if upgrade && (*method != Method::GET || !headers.contains_key(header::SEC_WEBSOCKET_KEY)) {
        return Err(HttpError::invalid("that is not the handshake of a WebSocket"));
    }
    Ok(upgrade)
}
