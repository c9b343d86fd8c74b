//! How much room there is, by kind and offer.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo, WorkerStatus};

use super::{Call, Refusal, Reply, json_reply};

/// The room of all workers of one kind and offer.
#[derive(Debug, Default, Serialize)]
struct Room {
    /// Those that live and take sessions.
    workers: u64,
    /// Those that live and take none any more.
    draining: u64,
    /// Sessions there are.
    active: u64,
    /// Sessions there could be at once.
    concurrent: u64,
    /// Sessions that could be opened now.
    free: u64,
    /// Clients that wait for one.
    waiting: u64,
}

impl Room {
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

impl Call<'_> {
    pub(super) async fn capacity(&self) -> Result<Reply, Refusal> {
        let mut rooms = self.rooms().await?;
        for line in self.desk.fleet().list_waiting().await? {
            rooms.entry((line.kind, line.offer)).or_default().waiting += u64::from(line.waiting);
        }
        let rooms: Vec<_> = rooms
            .iter()
            .map(|((kind, offer), room)| {
                let mut shown = json!(room);
                (shown["kind"], shown["offer"]) = (json!(kind), json!(offer));
                shown
            })
            .collect();
        Ok(json_reply(StatusCode::OK, &json!({ "capacity": rooms })))
    }

    async fn rooms(&self) -> Result<BTreeMap<(WorkerKind, Offer), Room>, Refusal> {
        let (mut rooms, mut cursor) = (BTreeMap::<_, Room>::new(), None);
        loop {
            let page =
                self.desk.fleet().list_workers(ListWorkersParams { kind: None, cursor, limit: 500 }).await?;
            for info in page.items.iter().filter(|info| info.worker.id.kind != WorkerKind::jobs()) {
                rooms.entry((info.worker.id.kind.clone(), info.worker.offer.clone())).or_default().add(info);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(rooms);
            }
        }
    }
}
