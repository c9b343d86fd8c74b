//! `beat`: heartbeats of workers.

use tidemill_core::Error;
use tidemill_core::store::fleet::{BeatParams, WorkerOrders};

use super::member_row::MemberRow;
use super::row::{to_u32, to_u64};
use super::{call, duration_ms};
use crate::Inner;
use crate::sql::BEAT;

pub(super) async fn beat(inner: &Inner, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
    if beat.workers.is_empty() {
        return Ok(Vec::new());
    }
    let workers = MemberRow::from_workers(beat.workers)?;
    let row = call(inner, &BEAT, &[&workers, &duration_ms(beat.grace)]).await?;
    let (drains, actives): (Vec<bool>, Vec<i64>) = (row.get("drains"), row.get("actives"));
    let lifetimes: Vec<i64> = row.get("lifetimes");
    let orders = drains.into_iter().zip(actives).zip(lifetimes);
    let order = |((drain, active), lifetime)| WorkerOrders {
        drain,
        active: to_u32(active),
        lifetime: to_u64(lifetime),
    };
    Ok(orders.map(order).collect())
}
