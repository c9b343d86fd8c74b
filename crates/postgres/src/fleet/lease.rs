//! `lease`: gives a worker to a session, or queues the session.

use postgres_types::ToSql;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;

use super::row::{offer, to_u32, worker_key};
use super::{call, duration_ms, order_timeout_ms};
use crate::Inner;
use crate::sql::LEASE;

/// A request for a worker, as `lease_member` takes it.
#[derive(Debug, ToSql)]
#[postgres(name = "lease_row")]
struct LeaseRow<'a> {
    session: &'a str,
    kind: &'a str,
    offers: Vec<&'a str>,
    holder: &'a str,
    ttl: i64,
    keep: i64,
    detail: &'a [u8],
    refused: Vec<String>,
    max_waiting: Option<i64>,
    wait_ttl: Option<i64>,
}

impl<'a> LeaseRow<'a> {
    fn new(lease: &'a LeaseParams) -> Self {
        Self {
            session: lease.session.as_str(),
            kind: lease.kind.as_str(),
            offers: lease.offers.iter().map(|offer| offer.as_str()).collect(),
            holder: lease.holder.as_str(),
            ttl: duration_ms(lease.ttl),
            keep: duration_ms(lease.keep),
            detail: &lease.detail,
            refused: lease.rejected.iter().map(WorkerKey::to_string).collect(),
            max_waiting: lease.wait.map(|wait| wait.max_waiting.into()),
            wait_ttl: lease.wait.map(|wait| duration_ms(wait.ttl)),
        }
    }
}

pub(super) async fn lease(inner: &Inner, lease: &LeaseParams) -> Result<Leased, Error> {
    lease.check()?;
    leased_from_row(&call(inner, &LEASE, &[&LeaseRow::new(lease), &order_timeout_ms()]).await?)
}

fn leased_from_row(row: &Row) -> Result<Leased, Error> {
    if let Some(worker) = row.get::<_, Option<&str>>("given") {
        return Ok(Leased::Granted(Grant {
            worker: worker_key(worker)?,
            endpoint: row.get("at_endpoint"),
            offer: offer(row.get("by_offer"))?,
            until: Timestamp(row.get("lasts")),
        }));
    }
    let workers = to_u32(row.get("workers"));
    Ok(match row.get::<_, Option<i64>>("ahead") {
        Some(ahead) => Leased::Waiting { ahead: to_u32(ahead), workers },
        None => Leased::Refused { waiting: to_u32(row.get("waiting")), workers },
    })
}
