//! `attach`: registers and renews the sessions that a holder has.

use tidemill_core::Error;
use tidemill_core::store::fleet::{AttachParams, Attached};
use tokio_postgres::types::ToSql;

use super::{call, duration_ms};
use crate::Inner;
use crate::sql::ATTACH;

pub(super) async fn attach(inner: &Inner, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
    if attach.is_empty() {
        return Ok(Vec::new());
    }
    attach.iter().try_for_each(AttachParams::check)?;
    let sessions: Vec<&str> = attach.iter().map(|held| held.session.as_str()).collect();
    let workers: Vec<String> = attach.iter().map(|held| held.worker.to_string()).collect();
    let holders: Vec<&str> = attach.iter().map(|held| held.holder.as_str()).collect();
    let ttls: Vec<i64> = attach.iter().map(|held| duration_ms(held.ttl)).collect();
    let keeps: Vec<i64> = attach.iter().map(|held| duration_ms(held.keep)).collect();
    let connecteds: Vec<bool> = attach.iter().map(|held| held.connected).collect();
    let takes: Vec<bool> = attach.iter().map(|held| held.take_over).collect();
    let details: Vec<&[u8]> = attach.iter().map(|held| &held.detail[..]).collect();
    let starts: Vec<i64> = attach.iter().map(|held| held.started_at.0).collect();
    let musts: Vec<bool> = attach.iter().map(|held| held.must_exist).collect();
    let params: [&(dyn ToSql + Sync); 10] =
        [&sessions, &workers, &holders, &ttls, &keeps, &connecteds, &takes, &details, &starts, &musts];
    let row = call(inner, &ATTACH, &params).await?;
    row.get::<_, Vec<i16>>("answers").into_iter().map(attached_from_code).collect()
}

fn attached_from_code(code: i16) -> Result<Attached, Error> {
    match code {
        0 => Ok(Attached::Held),
        1 => Ok(Attached::Closing),
        2 => Ok(Attached::Lost),
        other => Err(Error::Corrupt(format!("a session was attached with the answer {other}"))),
    }
}
