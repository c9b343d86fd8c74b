//! What is answered without a WebSocket: the API under `/v1`, what clients ask before they connect, and probes.

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

use super::desk::Desk;
use super::metrics;
use super::query::Query;
use super::refusal::{Refusal, Reply, json_reply, reply};
use super::route::Route;

/// A request and who makes it.
pub(crate) struct Call<'a> {
    pub(crate) desk: &'a Arc<Desk>,
    pub(crate) parts: &'a Parts,
    pub(crate) query: &'a Query,
    /// Where the caller connected from.
    pub(crate) client: SocketAddr,
    /// The name of the caller's token.
    pub(crate) token: Option<String>,
}

impl Call<'_> {
    pub(crate) async fn answer(self, route: Route, body: Incoming) -> Result<Reply, Refusal> {
        match route {
            Route::DevTools => Ok(self.dev_tools()),
            Route::Playwright => Ok(Self::playwright()),
            Route::ListSessions => self.list_sessions().await,
            Route::OpenSession => self.reserve(body).await,
            Route::ShowSession(id) => self.show_session(&id).await,
            Route::CloseSession(id) => self.close_session(&id).await,
            Route::ListWorkers => self.list_workers().await,
            Route::ShowWorker(id) => self.show_worker(&id).await,
            Route::Capacity => self.capacity().await,
            Route::Health => Ok(json_reply(StatusCode::OK, &json!({ "status": "up" }))),
            Route::Ready => self.ready(),
            Route::Metrics => {
                Ok(reply(StatusCode::OK, "text/plain; version=0.0.4", metrics::page(self.desk)))
            }
            Route::Browser | Route::Session(_) => Err(Refusal::invalid("a browser is had by a WebSocket")),
        }
    }

    fn ready(&self) -> Result<Reply, Refusal> {
        if self.desk.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        if !self.desk.is_reachable() {
            return Err(Refusal::busy(
                "store",
                "the store is not available",
                std::time::Duration::from_secs(1),
            ));
        }
        Ok(json_reply(StatusCode::OK, &json!({ "status": "ready" })))
    }

    /// Where the page of a list begins, and how long it is.
    fn page(&self) -> Result<(Option<String>, usize), Refusal> {
        let limit = self.query.get("limit").map_or(Ok(100), str::parse);
        let limit = limit.ok().filter(|limit| (1..=1000).contains(limit));
        let limit = limit.ok_or_else(|| Refusal::invalid("a limit is a number from 1 to 1000"))?;
        Ok((self.query.get("cursor").map(str::to_owned), limit))
    }

    /// How this client calls us: it is to connect to the same.
    fn address(&self) -> String {
        let text =
            |name| self.parts.headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
        let scheme = if text("x-forwarded-proto") == Some("https") { "wss" } else { "ws" };
        format!("{scheme}://{}", text("host").unwrap_or("localhost"))
    }
}
