//! `attach`: registers and renews the sessions that a holder has.

use postgres_types::ToSql;
use tidemill_core::Error;
use tidemill_core::store::fleet::{AttachParams, Attached};

use super::{call, duration_ms};
use crate::Inner;
use crate::sql::ATTACH;

/// A session that its holder registers or renews, as `attach_sessions` takes it.
#[derive(Debug, ToSql)]
#[postgres(name = "session_row")]
struct SessionRow<'a> {
    id: &'a str,
    member: String,
    holder: &'a str,
    ttl: i64,
    keep: i64,
    connected: bool,
    take_over: bool,
    must_exist: bool,
    started_at: i64,
    detail: &'a [u8],
}

impl<'a> SessionRow<'a> {
    fn new(held: &'a AttachParams) -> Self {
        Self {
            id: held.session.as_str(),
            member: held.worker.to_string(),
            holder: held.holder.as_str(),
            ttl: duration_ms(held.ttl),
            keep: duration_ms(held.keep),
            connected: held.connected,
            take_over: held.take_over,
            must_exist: held.must_exist,
            started_at: held.started_at.0,
            detail: &held.detail,
        }
    }
}

pub(super) async fn attach(inner: &Inner, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
    if attach.is_empty() {
        return Ok(Vec::new());
    }
    attach.iter().try_for_each(AttachParams::check)?;
    let sessions: Vec<SessionRow<'_>> = attach.iter().map(SessionRow::new).collect();
    let row = call(inner, &ATTACH, &[&sessions]).await?;
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
