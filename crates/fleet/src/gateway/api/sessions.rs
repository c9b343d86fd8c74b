//! Sessions over HTTP.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{ListSessionsParams, SessionInfo};

use super::{Call, Refusal, Reply, json_reply};

impl Call<'_> {
    pub(super) async fn list_sessions(&self) -> Result<Reply, Refusal> {
        let (cursor, limit) = self.page()?;
        let member = self.query.get("worker").map(str::parse).transpose();
        let member =
            member.map_err(|error: tidemill_core::name::InvalidName| Refusal::invalid(error.to_string()))?;
        let page = self
            .desk
            .fleet()
            .list_sessions(ListSessionsParams { worker: member.as_ref(), cursor, limit })
            .await?;
        let sessions: Vec<_> = page.items.iter().map(shown).collect();
        Ok(json_reply(StatusCode::OK, &json!({ "sessions": sessions, "next": page.next })))
    }

    pub(super) async fn show_session(&self, id: &SessionId) -> Result<Reply, Refusal> {
        let session = self.desk.fleet().get_session(id).await?.ok_or_else(unknown)?;
        Ok(json_reply(StatusCode::OK, &shown(&session)))
    }

    /// Asks for a session's end. Whoever holds it hears of it at once.
    pub(super) async fn close_session(&self, id: &SessionId) -> Result<Reply, Refusal> {
        if !self.desk.fleet().close(id).await? {
            return Err(unknown());
        }
        // If it is held here, the store need not announce it.
        self.desk.holdings.ask_about(id);
        Ok(json_reply(StatusCode::ACCEPTED, &json!({ "id": id, "status": "closing" })))
    }
}

fn unknown() -> Refusal {
    Refusal::not_found("there is no such session; it may be over")
}

/// A session for programs. Not where its browser is: that is for the gateway alone.
fn shown(info: &SessionInfo) -> Value {
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
