//! HTTP requests without a WebSocket: the API under `/v1`, discovery and probes.

mod capacity;
mod discover;
mod reserve;
mod sessions;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{StatusCode, header};
use serde_json::json;

use super::http_error::{HttpError, Reply, json_reply, reply};
use super::metrics;
use super::request::Query;
use super::route::Route;
use super::shared::GatewayShared;

/// A request and its caller.
pub(crate) struct ApiRequest<'a> {
    pub(crate) shared: &'a Arc<GatewayShared>,
    pub(crate) parts: &'a Parts,
    pub(crate) query: &'a Query,
    /// The caller's address.
    pub(crate) client: SocketAddr,
    /// The name of the caller's token.
    pub(crate) token: Option<String>,
}

impl ApiRequest<'_> {
    pub(crate) async fn handle(self, route: Route, body: Incoming) -> Result<Reply, HttpError> {
        match route {
            Route::DevToolsVersion => Ok(self.devtools_version()),
            Route::PlaywrightEndpoint => Ok(Self::playwright_endpoint()),
            Route::ListSessions => self.list_sessions().await,
            Route::ReserveSession => self.reserve_session(body).await,
            Route::ShowSession(id) => self.show_session(&id).await,
            Route::CloseSession(id) => self.close_session(&id).await,
            Route::ListWorkers => self.list_workers().await,
            Route::ShowWorker(id) => self.show_worker(&id).await,
            Route::Capacity => self.capacity().await,
            Route::Health => Ok(json_reply(StatusCode::OK, &json!({ "status": "up" }))),
            Route::Ready => self.readiness(),
            Route::Metrics => {
                Ok(reply(StatusCode::OK, "text/plain; version=0.0.4", metrics::render(self.shared)))
            }
            Route::Browser | Route::Session(_) => Err(HttpError::invalid("a browser is had by a WebSocket")),
        }
    }

    fn readiness(&self) -> Result<Reply, HttpError> {
        if self.shared.stopping.is_cancelled() {
            return Err(HttpError::stopping());
        }
        if !self.shared.leases.is_store_reachable() {
            return Err(HttpError::busy(
                "store",
                "the store is not available",
                std::time::Duration::from_secs(1),
            ));
        }
        Ok(json_reply(StatusCode::OK, &json!({ "status": "ready" })))
    }

    /// The cursor and the limit of a listing.
    fn page_params(&self) -> Result<(Option<String>, usize), HttpError> {
        let limit = self.query.get("limit").map_or(Ok(100), str::parse);
        let limit = limit.ok().filter(|limit| (1..=1000).contains(limit));
        let limit = limit.ok_or_else(|| HttpError::invalid("a limit is a number from 1 to 1000"))?;
        Ok((self.query.get("cursor").map(str::to_owned), limit))
    }

    /// The WebSocket form of the address by which the client reached this gateway.
    fn websocket_base_url(&self) -> String {
        let text =
            |name| self.parts.headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
        let scheme = if text("x-forwarded-proto") == Some("https") { "wss" } else { "ws" };
        format!("{scheme}://{}", text("host").unwrap_or("localhost"))
    }
}
