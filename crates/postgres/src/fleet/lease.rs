//! Giving a member to a client.

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::row::{member_id, offer, small};
use super::{call, span, standing};
use crate::Inner;
use crate::sql::LEASE;

pub(super) async fn lease(inner: &Inner, lease: &LeaseParams) -> Result<Leased, Error> {
    lease.check()?;
    let (session, kind, holder) = (lease.session.as_str(), lease.kind.as_str(), lease.holder.as_str());
    let offers: Vec<&str> = lease.offers.iter().map(|offer| offer.as_str()).collect();
    let (ttl, keep, detail): (_, _, &[u8]) = (span(lease.ttl), span(lease.keep), &lease.detail);
    let refused: Vec<String> = lease.rejected.iter().map(WorkerKey::to_string).collect();
    let most = lease.wait.map(|line| i64::from(line.max_waiting));
    let line_ttl = lease.wait.map(|line| span(line.ttl));
    let params: [&(dyn ToSql + Sync); 11] =
        [&session, &kind, &offers, &holder, &ttl, &keep, &detail, &refused, &most, &line_ttl, &standing()];
    leased(&call(inner, &LEASE, &params).await?)
}

fn leased(row: &Row) -> Result<Leased, Error> {
    if let Some(member) = row.get::<_, Option<&str>>("given") {
        return Ok(Leased::Granted(Grant {
            worker: member_id(member)?,
            endpoint: row.get("at_endpoint"),
            offer: offer(row.get("by_offer"))?,
            until: Timestamp(row.get("lasts")),
        }));
    }
    let workers = small(row.get("workers"));
    Ok(match row.get::<_, Option<i64>>("ahead") {
        Some(ahead) => Leased::Waiting { ahead: small(ahead), workers },
        None => Leased::Refused { waiting: small(row.get("waiting")), workers },
    })
}
