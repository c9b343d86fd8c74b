//! Workers over HTTP.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_core::fleet::{WorkerKey, WorkerKind};
use tidemill_core::name::InvalidName;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo};

use super::{Call, Refusal, Reply, json_reply};

impl Call<'_> {
    pub(super) async fn list_workers(&self) -> Result<Reply, Refusal> {
        let (cursor, limit) = self.page()?;
        let kind = self.query.get("kind").map(WorkerKind::new).transpose();
        let kind = kind.map_err(|error: InvalidName| Refusal::invalid(error.to_string()))?;
        let page =
            self.desk.fleet().list_workers(ListWorkersParams { kind: kind.as_ref(), cursor, limit }).await?;
        let workers: Vec<_> = page.items.iter().map(shown).collect();
        Ok(json_reply(StatusCode::OK, &json!({ "workers": workers, "next": page.next })))
    }

    pub(super) async fn show_worker(&self, id: &WorkerKey) -> Result<Reply, Refusal> {
        let worker = self.desk.fleet().get_worker(id).await?;
        let worker = worker.ok_or_else(|| Refusal::not_found("there is no such worker"))?;
        Ok(json_reply(StatusCode::OK, &shown(&worker)))
    }
}

/// A worker for programs. Not where it is: that is for the gateway alone.
fn shown(info: &WorkerInfo) -> Value {
    let detail: Value = serde_json::from_slice(&info.worker.detail).unwrap_or(Value::Null);
    json!({
        "id": info.worker.id,
        "kind": info.worker.id.kind,
        "offer": info.worker.offer,
        "status": info.worker.status,
        "fresh": info.is_fresh,
        "ordered_to_drain": info.drain_ordered,
        "room": info.worker.capacity,
        "active": info.active,
        "lifetime": info.lifetime,
        "last_beat": info.last_beat,
        "detail": detail,
    })
}
