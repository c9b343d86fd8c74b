//! The description of a worker in the fleet: host, queues, kinds and load.

use serde::Serialize;
use tidemill_core::store::fleet::MAX_DETAIL_BYTES;
use tidemill_core::{Guarantee, Kind, QueueName, Timestamp};

use crate::queue_slots::QueueSlots;
use crate::shared::WorkerShared;

/// The constant part of the description.
pub(crate) struct WorkerDetail {
    kinds: Vec<Kind>,
    any: bool,
    started_at: Timestamp,
}

/// A queue that the worker serves.
#[derive(Serialize)]
struct ServedQueue<'a> {
    name: &'a QueueName,
    delivery: Guarantee,
    concurrency: usize,
}

/// The description as stored.
#[derive(Serialize)]
struct DetailJson<'a> {
    host: &'a str,
    pid: u32,
    version: &'static str,
    started_at: String,
    running: usize,
    queues: Vec<ServedQueue<'a>>,
    kinds: Vec<&'a str>,
    /// The number of queues and kinds that were omitted for lack of space.
    #[serde(skip_serializing_if = "is_zero")]
    unnamed: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl WorkerDetail {
    /// `any`: whether there is a fallback handler.
    pub(crate) fn new(mut kinds: Vec<Kind>, any: bool, started_at: Timestamp) -> Self {
        kinds.sort();
        Self { kinds, any, started_at }
    }

    pub(crate) fn write(&self, shared: &WorkerShared) -> Vec<u8> {
        let mut kinds: Vec<_> = self.kinds.iter().map(Kind::as_str).collect();
        kinds.extend(self.any.then_some("*"));
        let detail = DetailJson {
            host: shared.host(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at.to_string(),
            running: shared.queue_slots.iter().map(|slots| slots.running()).sum(),
            queues: shared.queue_slots.iter().map(|slots| served(slots)).collect(),
            kinds,
            unnamed: 0,
        };
        fit(detail)
    }
}

fn served(slots: &QueueSlots) -> ServedQueue<'_> {
    ServedQueue { name: &slots.queue.name, delivery: slots.queue.guarantee, concurrency: slots.concurrency }
}

/// Removes half of the longer list until the text fits.
fn fit(mut detail: DetailJson<'_>) -> Vec<u8> {
    loop {
        let text = serde_json::to_vec(&detail).unwrap_or_else(|_| b"{}".to_vec());
        let (queues, kinds) = (detail.queues.len(), detail.kinds.len());
        if text.len() <= MAX_DETAIL_BYTES || queues + kinds == 0 {
            return text;
        }
        if kinds >= queues {
            detail.kinds.truncate(kinds / 2);
        } else {
            detail.queues.truncate(queues / 2);
        }
        detail.unnamed += queues + kinds - detail.queues.len() - detail.kinds.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let names: Vec<String> = (0..2000).map(|n| format!("kind-{n}")).collect();
        let kinds = names.iter().map(String::as_str).collect();
        let (host, started_at) = ("host", String::new());
        let detail = DetailJson {
            host,
            pid: 1,
            version: "1",
            started_at,
            running: 0,
            queues: Vec::new(),
            kinds,
            unnamed: 0,
        };
        let text = fit(detail);
        assert!(text.len() <= MAX_DETAIL_BYTES);
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let named = json["kinds"].as_array().unwrap().len() as u64;
        assert_eq!(named + json["unnamed"].as_u64().unwrap(), 2000);
    }
}
