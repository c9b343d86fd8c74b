//! Workers in the HTTP API.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidemill_core::fleet::{WorkerKey, WorkerKind};
use tidemill_core::name::InvalidName;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo};

use super::{ApiRequest, HttpError, Reply, json_reply};

impl ApiRequest<'_> {
    pub(super) async fn list_workers(&self) -> Result<Reply, HttpError> {
        let (cursor, limit) = self.page_params()?;
        let kind = self.query.get("kind").map(WorkerKind::new).transpose();
        let kind = kind.map_err(|error: InvalidName| HttpError::invalid(error.to_string()))?;
        let page = self
            .shared
            .fleet()
            .list_workers(ListWorkersParams { kind: kind.as_ref(), cursor, limit })
            .await?;
        let workers: Vec<_> = page.items.iter().map(worker_json).collect();
        Ok(json_reply(StatusCode::OK, &json!({ "workers": workers, "next": page.next })))
    }

    pub(super) async fn show_worker(&self, id: &WorkerKey) -> Result<Reply, HttpError> {
        let worker = self.shared.fleet().get_worker(id).await?;
        let worker = worker.ok_or_else(|| HttpError::not_found("there is no such worker"))?;
        Ok(json_reply(StatusCode::OK, &worker_json(&worker)))
    }
}

/// A worker as JSON, without its endpoint: only gateways may know that.
fn worker_json(info: &WorkerInfo) -> Value {
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
