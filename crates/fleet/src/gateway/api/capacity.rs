//! `GET /v1/capacity`: how many sessions are possible, by kind and offer.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo, WorkerStatus};

use super::{ApiRequest, HttpError, Reply, json_reply};

/// The capacity of all workers of one kind and offer.
#[derive(Debug, Default, Serialize)]
struct CapacityTotals {
    /// Live workers that take sessions.
    workers: u64,
    /// Live workers that are draining.
    draining: u64,
    /// Open sessions.
    active: u64,
    /// The most sessions at once.
    concurrent: u64,
    /// Sessions that could be opened now.
    free: u64,
    /// Clients that wait for a browser.
    waiting: u64,
}

impl CapacityTotals {
    fn add(&mut self, info: &WorkerInfo) {
        self.active += u64::from(info.active);
        if !info.is_fresh {
            return;
        }
        if info.drain_ordered || info.worker.status == WorkerStatus::Draining {
            self.draining += 1;
            return;
        }
        let room = info.worker.capacity;
        self.workers += 1;
        self.concurrent += u64::from(room.concurrent);
        let left = if room.lifetime == 0 {
            u64::MAX
        } else {
            u64::from(room.lifetime).saturating_sub(info.lifetime)
        };
        self.free += u64::from(room.concurrent.saturating_sub(info.active)).min(left);
    }
}

impl ApiRequest<'_> {
    pub(super) async fn capacity(&self) -> Result<Reply, HttpError> {
        let mut totals = self.capacity_by_offer().await?;
        for queue in self.shared.fleet().list_waiting().await? {
            totals.entry((queue.kind, queue.offer)).or_default().waiting += u64::from(queue.waiting);
        }
        let totals: Vec<_> = totals
            .iter()
            .map(|((kind, offer), capacity)| {
                let mut json = json!(capacity);
                (json["kind"], json["offer"]) = (json!(kind), json!(offer));
                json
            })
            .collect();
        Ok(json_reply(StatusCode::OK, &json!({ "capacity": totals })))
    }

    async fn capacity_by_offer(&self) -> Result<BTreeMap<(WorkerKind, Offer), CapacityTotals>, HttpError> {
        let (mut totals, mut cursor) = (BTreeMap::<_, CapacityTotals>::new(), None);
        loop {
            let page = self
                .shared
                .fleet()
                .list_workers(ListWorkersParams { kind: None, cursor, limit: 500 })
                .await?;
            for info in page.items.iter().filter(|info| info.worker.id.kind != WorkerKind::jobs()) {
                totals.entry((info.worker.id.kind.clone(), info.worker.offer.clone())).or_default().add(info);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(totals);
            }
        }
    }
}
