//! HTTP errors: the only mapping from errors to responses.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode, header};
use serde_json::json;
use tidemill_core::Error;

/// A response of the gateway.
pub(crate) type Reply = Response<Full<Bytes>>;

/// An error with a code for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    /// The request is invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// The resource does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The client should retry later.
    pub(crate) fn busy(code: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { retry_after: Some(retry_after), ..Self::new(status, code, message) }
    }

    /// The session has ended.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "gone", message)
    }

    /// Another client has taken the session over.
    pub(crate) fn taken_over() -> Self {
        let message = "another client has connected to the session at the same time and has it now";
        Self::new(StatusCode::CONFLICT, "taken_over", message)
    }

    /// The session's end was requested.
    pub(crate) fn ended() -> Self {
        Self::gone("the session has been ended")
    }

    /// This gateway is stopping.
    pub(crate) fn stopping() -> Self {
        Self::busy("stopping", "this gateway is being stopped", Duration::from_secs(1))
    }

    pub(crate) fn into_reply(self) -> Reply {
        let mut reply =
            json_reply(self.status, &json!({ "error": { "code": self.code, "message": self.message } }));
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        reply
    }
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        match error {
            error if error.is_invalid() => Self::invalid(error.to_string()),
            Error::NotFound(what) => Self::not_found(format!("{what} not found")),
            // The cause may name servers and files, so it is logged and not sent.
            other => {
                tracing::warn!(error = other.full_message(), "a store call for a client failed");
                Self::busy("store", "the store is not available", Duration::from_secs(1))
            }
        }
    }
}

/// A JSON response.
pub(crate) fn json_reply(status: StatusCode, value: &serde_json::Value) -> Reply {
    let mut body = value.to_string();
    body.push('\n');
    reply(status, "application/json", body)
}

/// A text response.
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
        let reply = HttpError::busy("full", "no browser is free", Duration::from_millis(1_200)).into_reply();
        assert_eq!((reply.status().as_u16(), &reply.headers()["retry-after"]), (503, &"2".parse().unwrap()));
    }

    #[test]
    fn the_causes_of_a_store_error_stay_here() {
        let error = HttpError::from(Error::unavailable("redis://secret", "refused"));
        assert_eq!((error.status.as_u16(), error.message.contains("secret")), (503, false));
    }
}
