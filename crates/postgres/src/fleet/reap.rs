//! `reap`: removes dead workers, expired sessions and abandoned waits.

use tidemill_core::Error;
use tidemill_core::store::fleet::Reaped;

use super::row::{to_u64, worker_key};
use super::{call, order_timeout_ms};
use crate::Inner;
use crate::sql::REAP;

/// How many rows of each kind one call removes: it holds their locks until it is done.
const MAX_REAPED: i64 = 500;

pub(super) async fn reap(inner: &Inner) -> Result<Reaped, Error> {
    let row = call(inner, &REAP, &[&MAX_REAPED, &order_timeout_ms()]).await?;
    let dead: Vec<&str> = row.get("dead");
    Ok(Reaped {
        workers: dead.into_iter().map(worker_key).collect::<Result<_, _>>()?,
        sessions: to_u64(row.get("sessions_over")),
        waiting: to_u64(row.get("waiting_over")),
        ..Reaped::default()
    })
}
