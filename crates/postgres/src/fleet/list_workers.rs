//! `list_workers`: pages of workers.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::fleet::{ListWorkersParams, WorkerInfo};

use super::page::{max_rows, page};
use super::row;
use crate::Inner;
use crate::sql::{LIST_WORKERS, LIST_WORKERS_BY_KIND};

pub(super) async fn list_workers(
    inner: &Inner,
    list: ListWorkersParams<'_>,
) -> Result<Page<WorkerInfo>, Error> {
    let (after, max) = (list.cursor.unwrap_or_default(), max_rows(list.limit));
    let rows = match list.kind {
        None => inner.pool.query(&LIST_WORKERS, &[&after, &max]).await?,
        Some(kind) => inner.pool.query(&LIST_WORKERS_BY_KIND, &[&after, &max, &kind.as_str()]).await?,
    };
    page(&rows, list.limit, row::worker_info)
}
