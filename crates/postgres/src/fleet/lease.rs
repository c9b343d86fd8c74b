//! `lease`: gives a worker to a session, or queues the session.

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::row::{offer, to_u32, worker_key};
use super::{call, duration_ms, order_timeout_ms};
use crate::Inner;
use crate::sql::LEASE;

pub(super) async fn lease(inner: &Inner, lease: &LeaseParams) -> Result<Leased, Error> {
    lease.check()?;
    let (session, kind, holder) = (lease.session.as_str(), lease.kind.as_str(), lease.holder.as_str());
    let offers: Vec<&str> = lease.offers.iter().map(|offer| offer.as_str()).collect();
    let (ttl, keep, detail): (_, _, &[u8]) = (duration_ms(lease.ttl), duration_ms(lease.keep), &lease.detail);
    let refused: Vec<String> = lease.rejected.iter().map(WorkerKey::to_string).collect();
    let max_waiting = lease.wait.map(|line| i64::from(line.max_waiting));
    let wait_ttl = lease.wait.map(|line| duration_ms(line.ttl));
    let order_ms = order_timeout_ms();
    let params: [&(dyn ToSql + Sync); 11] = [
        &session,
        &kind,
        &offers,
        &holder,
        &ttl,
        &keep,
        &detail,
        &refused,
        &max_waiting,
        &wait_ttl,
        &order_ms,
    ];
    leased_from_row(&call(inner, &LEASE, &params).await?)
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
