//! What a client is told that does not get what it wants: the one place that maps to HTTP.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode, header};
use serde_json::json;
use tidemill_core::Error;

/// An answer of the gateway.
pub(crate) type Reply = Response<Full<Bytes>>;

/// Why not, in a word for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// The request is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// What is asked for is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Not now.
    pub(crate) fn busy(code: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { retry_after: Some(retry_after), ..Self::new(status, code, message) }
    }

    /// A session that is over.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "gone", message)
    }

    /// A session that goes on with another client.
    pub(crate) fn taken_over() -> Self {
        let message = "another client has connected to the session at the same time and has it now";
        Self::new(StatusCode::CONFLICT, "taken_over", message)
    }

    /// A session that somebody has ended.
    pub(crate) fn ended() -> Self {
        Self::gone("the session has been ended")
    }

    /// This gateway is about to end.
    pub(crate) fn stopping() -> Self {
        Self::busy("stopping", "this gateway is being stopped", Duration::from_secs(1))
    }

    pub(crate) fn reply(self) -> Reply {
        let mut reply =
            json_reply(self.status, &json!({ "error": { "code": self.code, "message": self.message } }));
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        reply
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(message) => Self::invalid(message),
            Error::NotFound(what) => Self::not_found(format!("{what} not found")),
            // The causes name servers and files, which are the operator's business.
            other => {
                tracing::warn!(error = other.full_message(), "the store did not do what a client needed");
                Self::busy("store", "the store is not available", Duration::from_secs(1))
            }
        }
    }
}

/// An answer of JSON.
pub(crate) fn json_reply(status: StatusCode, value: &serde_json::Value) -> Reply {
    let mut body = value.to_string();
    body.push('\n');
    reply(status, "application/json", body)
}

/// An answer of text.
pub(crate) fn reply(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_to_come_back_is_told_when() {
        let reply = Refusal::busy("full", "no browser is free", Duration::from_millis(1_200)).reply();
        assert_eq!((reply.status().as_u16(), &reply.headers()["retry-after"]), (503, &"2".parse().unwrap()));
    }

    #[test]
    fn the_causes_of_a_store_error_stay_here() {
        let refusal = Refusal::from(Error::unavailable("redis://secret", "refused"));
        assert_eq!((refusal.status.as_u16(), refusal.message.contains("secret")), (503, false));
    }
}
