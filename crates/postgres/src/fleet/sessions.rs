//! Holding sessions and ending them.

use tidemill_core::Error;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::fleet::{AttachParams, Attached, ReleaseParams};
use tokio_postgres::types::ToSql;

use super::{call, span, standing};
use crate::Inner;
use crate::sql::{ATTACH, CLOSE, RELEASE};

pub(super) async fn attach(inner: &Inner, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
    if attach.is_empty() {
        return Ok(Vec::new());
    }
    attach.iter().try_for_each(AttachParams::check)?;
    let sessions: Vec<&str> = attach.iter().map(|held| held.session.as_str()).collect();
    let members: Vec<String> = attach.iter().map(|held| held.worker.to_string()).collect();
    let holders: Vec<&str> = attach.iter().map(|held| held.holder.as_str()).collect();
    let ttls: Vec<i64> = attach.iter().map(|held| span(held.ttl)).collect();
    let keeps: Vec<i64> = attach.iter().map(|held| span(held.keep)).collect();
    let connecteds: Vec<bool> = attach.iter().map(|held| held.connected).collect();
    let takes: Vec<bool> = attach.iter().map(|held| held.take_over).collect();
    let details: Vec<&[u8]> = attach.iter().map(|held| &held.detail[..]).collect();
    let starts: Vec<i64> = attach.iter().map(|held| held.started_at.0).collect();
    let musts: Vec<bool> = attach.iter().map(|held| held.must_exist).collect();
    let params: [&(dyn ToSql + Sync); 10] =
        [&sessions, &members, &holders, &ttls, &keeps, &connecteds, &takes, &details, &starts, &musts];
    let row = call(inner, &ATTACH, &params).await?;
    row.get::<_, Vec<i16>>("answers").into_iter().map(attached).collect()
}

fn attached(code: i16) -> Result<Attached, Error> {
    match code {
        0 => Ok(Attached::Held),
        1 => Ok(Attached::Closing),
        2 => Ok(Attached::Lost),
        other => Err(Error::Corrupt(format!("a session was attached with the answer {other}"))),
    }
}

pub(super) async fn release(inner: &Inner, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
    if release.is_empty() {
        return Ok(Vec::new());
    }
    let sessions: Vec<&str> = release.iter().map(|over| over.session.as_str()).collect();
    let holders: Vec<&str> = release.iter().map(|over| over.holder.as_str()).collect();
    let row = call(inner, &RELEASE, &[&sessions, &holders, &standing()]).await?;
    Ok(row.get("ended"))
}

pub(super) async fn close(inner: &Inner, session: &SessionId) -> Result<bool, Error> {
    let row = call(inner, &CLOSE, &[&session.as_str(), &standing()]).await?;
    // Whoever asks for this is often a command that ends at once, so this waits until it is said.
    inner.bus.flush().await;
    Ok(row.get("was_there"))
}
