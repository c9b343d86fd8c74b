//! The columns of workers, as functions take them.

use tidemill_core::Error;
use tidemill_core::store::fleet::WorkerEntry;
use tokio_postgres::types::ToSql;

use super::duration_ms;
use super::row::status_code;

/// The columns of workers: a function takes one array per column.
pub(super) struct WorkerColumns<'a> {
    ids: Vec<String>,
    kinds: Vec<&'a str>,
    offers: Vec<&'a str>,
    endpoints: Vec<&'a str>,
    statuses: Vec<i16>,
    concurrents: Vec<i64>,
    lifetimes: Vec<i64>,
    freshes: Vec<i64>,
    details: Vec<&'a [u8]>,
}

impl<'a> WorkerColumns<'a> {
    pub(super) fn new(workers: &'a [WorkerEntry]) -> Result<Self, Error> {
        workers.iter().try_for_each(WorkerEntry::check)?;
        Ok(Self {
            ids: workers.iter().map(|worker| worker.id.to_string()).collect(),
            kinds: workers.iter().map(|worker| worker.id.kind.as_str()).collect(),
            offers: workers.iter().map(|worker| worker.offer.as_str()).collect(),
            endpoints: workers.iter().map(|worker| worker.endpoint.as_str()).collect(),
            statuses: workers.iter().map(|worker| status_code(worker.status)).collect(),
            concurrents: workers.iter().map(|worker| worker.capacity.concurrent.into()).collect(),
            lifetimes: workers.iter().map(|worker| worker.capacity.lifetime.into()).collect(),
            freshes: workers.iter().map(|worker| duration_ms(worker.beat_timeout)).collect(),
            details: workers.iter().map(|worker| &worker.detail[..]).collect(),
        })
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 9] {
        let Self { ids, kinds, offers, endpoints, statuses, concurrents, lifetimes, freshes, details } = self;
        [ids, kinds, offers, endpoints, statuses, concurrents, lifetimes, freshes, details]
    }
}
