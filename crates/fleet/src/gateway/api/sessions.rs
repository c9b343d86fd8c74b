//! Sessions in the HTTP API.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo};

use super::{ApiRequest, HttpError, Reply, json_reply};

impl ApiRequest<'_> {
    pub(super) async fn list_sessions(&self) -> Result<Reply, HttpError> {
        let (cursor, limit) = self.page_params()?;
        let worker = self.query.get("worker").map(str::parse).transpose();
        let worker = worker
            .map_err(|error: tidemill_core::name::InvalidName| HttpError::invalid(error.to_string()))?;
        let page = self
            .shared
            .fleet()
            .list_sessions(ListSessionsParams { worker: worker.as_ref(), cursor, limit })
            .await?;
        let sessions: Vec<_> = page.items.iter().map(session_json).collect();
        Ok(json_reply(StatusCode::OK, &json!({ "sessions": sessions, "next": page.next })))
    }

    pub(super) async fn show_session(&self, id: &SessionId) -> Result<Reply, HttpError> {
        let session = self.shared.fleet().get_session(id).await?.ok_or_else(unknown_session)?;
        Ok(json_reply(StatusCode::OK, &session_json(&session)))
    }

    /// Requests a session's end. Its holder learns of it at once.
    pub(super) async fn close_session(&self, id: &SessionId) -> Result<Reply, HttpError> {
        if !self.shared.fleet().close(id).await? {
            return Err(unknown_session());
        }
        // If this gateway holds it, no wake-up is needed.
        self.shared.leases.sessions.recheck(id);
        Ok(json_reply(StatusCode::ACCEPTED, &json!({ "id": id, "status": "closing" })))
    }
}

fn unknown_session() -> HttpError {
    HttpError::not_found("there is no such session; it may be over")
}

/// A session as JSON, without its endpoint: only gateways may know that.
fn session_json(info: &SessionInfo) -> Value {
    let detail: Value = serde_json::from_slice(&info.detail).unwrap_or(Value::Null);
    json!({
        "id": info.session,
        "worker": info.worker,
        "offer": info.offer,
        "gateway": info.holder,
        "connected": info.connected,
        "closing": info.closing,
        "keep_seconds": info.keep.as_secs_f64(),
        "started_at": info.started_at,
        "until": info.until,
        "detail": detail,
    })
}
