//! The row of a worker, as functions take it.

use postgres_types::ToSql;
use tidemill_core::Error;
use tidemill_core::store::fleet::WorkerEntry;

use super::duration_ms;
use super::row::status_code;

/// A worker. `migrations/0005_row_types.sql` documents the columns.
#[derive(Debug, ToSql)]
#[postgres(name = "member_row")]
pub(super) struct MemberRow<'a> {
    id: String,
    kind: &'a str,
    offer: &'a str,
    endpoint: &'a str,
    status: i16,
    concurrent: i64,
    most: i64,
    fresh: i64,
    detail: &'a [u8],
}

impl<'a> MemberRow<'a> {
    /// Checks the workers and converts them.
    pub(super) fn from_workers(workers: &'a [WorkerEntry]) -> Result<Vec<Self>, Error> {
        workers.iter().try_for_each(WorkerEntry::check)?;
        Ok(workers.iter().map(Self::new).collect())
    }

    fn new(worker: &'a WorkerEntry) -> Self {
        Self {
            id: worker.id.to_string(),
            kind: worker.id.kind.as_str(),
            offer: worker.offer.as_str(),
            endpoint: worker.endpoint.as_str(),
            status: status_code(worker.status),
            concurrent: worker.capacity.concurrent.into(),
            most: worker.capacity.lifetime.into(),
            fresh: duration_ms(worker.beat_timeout),
            detail: &worker.detail,
        }
    }
}
