//! `list_workers`: a page of workers. Also parses replies about workers and sessions.

use std::time::Duration;

use redis::Value;
use tidemill_core::fleet::Capacity;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerEntry, WorkerInfo, WorkerStatus};
use tidemill_core::{Error, Timestamp};

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// Maximum page size: one script reads the page.
const MAX_PAGE_SIZE: usize = 1_000;

impl RedisStore {
    pub(super) async fn page_of_workers(
        &self,
        list: ListWorkersParams<'_>,
    ) -> Result<Page<WorkerInfo>, Error> {
        let (first, end) = match list.kind {
            Some(kind) => (format!("[{kind}:"), format!("({kind};")),
            None => ("-".to_owned(), "+".to_owned()),
        };
        let args = NamedArgs::new()
            .with("first", list.cursor.map_or(first, |cursor| format!("({cursor}")))
            .with("last", end)
            .with("limit", page_size(list.limit));
        read_page(self.call_fleet(&self.fleet_state.scripts.list_workers, args).await?, read_worker)
    }
}

pub(super) fn page_size(limit: usize) -> usize {
    limit.clamp(1, MAX_PAGE_SIZE)
}

/// Parses a page: the cursor, then the items. An invalid item must not hide the rest.
pub(super) fn read_page<T>(reply: Value, read: impl Fn(Vec<Value>) -> Option<T>) -> Result<Page<T>, Error> {
    let unexpected = || unexpected_reply("a page of the fleet");
    let mut parts = array(reply).ok_or_else(unexpected)?.into_iter();
    let next = parts.next().and_then(text).ok_or_else(unexpected)?;
    let items = parts.filter_map(|item| read(array(item)?)).collect();
    Ok(Page { items, next: Some(next).filter(|next| !next.is_empty()) })
}

pub(super) fn is_set(value: &Value) -> bool {
    int(value) == Some(1)
}

pub(super) fn duration(value: &Value) -> Option<Duration> {
    Some(Duration::from_millis(u64::try_from(int(value)?).ok()?))
}

pub(super) fn read_worker(parts: Vec<Value>) -> Option<WorkerInfo> {
    let mut parts = parts.into_iter();
    let id = text(parts.next()?)?.parse().ok()?;
    let offer = text(parts.next()?)?.parse().ok()?;
    let endpoint = text(parts.next()?)?;
    let status = if is_set(&parts.next()?) { WorkerStatus::Available } else { WorkerStatus::Draining };
    let room = Capacity { concurrent: number(parts.next()?)?, lifetime: number(parts.next()?)? };
    let (fresh, detail) = (duration(&parts.next()?)?, bytes(parts.next()?)?);
    Some(WorkerInfo {
        worker: WorkerEntry { id, offer, endpoint, status, capacity: room, beat_timeout: fresh, detail },
        last_beat: Timestamp(int(&parts.next()?)?),
        is_fresh: is_set(&parts.next()?),
        drain_ordered: is_set(&parts.next()?),
        active: number(parts.next()?)?,
        lifetime: u64::try_from(int(&parts.next()?)?).ok()?,
    })
}

fn number(value: Value) -> Option<u32> {
    u32::try_from(int(&value)?).ok()
}
