//! Who is in the fleet: entering, living, leaving, dying.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{BeatParams, Reaped, WorkerEntry, WorkerOrders};
use tokio_postgres::types::ToSql;

use super::row::{big, member_id, small, status_code};
use super::{call, span, standing};
use crate::Inner;
use crate::sql::{BEAT, DRAIN, JOIN, PART, REAP};

/// How many of each one call reaps: it holds their locks until it is done.
const BATCH: i64 = 500;

/// What members say of themselves, as functions take it: a column each.
struct Columns<'a> {
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

impl<'a> Columns<'a> {
    fn of(members: &'a [WorkerEntry]) -> Result<Self, Error> {
        members.iter().try_for_each(WorkerEntry::check)?;
        Ok(Self {
            ids: members.iter().map(|member| member.id.to_string()).collect(),
            kinds: members.iter().map(|member| member.id.kind.as_str()).collect(),
            offers: members.iter().map(|member| member.offer.as_str()).collect(),
            endpoints: members.iter().map(|member| member.endpoint.as_str()).collect(),
            statuses: members.iter().map(|member| status_code(member.status)).collect(),
            concurrents: members.iter().map(|member| member.capacity.concurrent.into()).collect(),
            lifetimes: members.iter().map(|member| member.capacity.lifetime.into()).collect(),
            freshes: members.iter().map(|member| span(member.beat_timeout)).collect(),
            details: members.iter().map(|member| &member.detail[..]).collect(),
        })
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 9] {
        let Self { ids, kinds, offers, endpoints, statuses, concurrents, lifetimes, freshes, details } = self;
        [ids, kinds, offers, endpoints, statuses, concurrents, lifetimes, freshes, details]
    }
}

pub(super) async fn join(inner: &Inner, members: &[WorkerEntry]) -> Result<(), Error> {
    if members.is_empty() {
        return Ok(());
    }
    call(inner, &JOIN, &Columns::of(members)?.params()).await.map(drop)
}

pub(super) async fn beat(inner: &Inner, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
    if beat.workers.is_empty() {
        return Ok(Vec::new());
    }
    let (columns, grace) = (Columns::of(beat.workers)?, span(beat.grace));
    let params: Vec<&(dyn ToSql + Sync)> = columns.params().into_iter().chain([&grace as _]).collect();
    let row = call(inner, &BEAT, &params).await?;
    let (drains, actives): (Vec<bool>, Vec<i64>) = (row.get("drains"), row.get("actives"));
    let lifetimes: Vec<i64> = row.get("lifetimes");
    let orders = drains.into_iter().zip(actives).zip(lifetimes);
    let order =
        |((drain, active), lifetime)| WorkerOrders { drain, active: small(active), lifetime: big(lifetime) };
    Ok(orders.map(order).collect())
}

pub(super) async fn part(inner: &Inner, members: &[WorkerKey]) -> Result<(), Error> {
    let ids: Vec<String> = members.iter().map(WorkerKey::to_string).collect();
    inner.pool.query(&PART, &[&ids]).await.map(drop)
}

pub(super) async fn drain(inner: &Inner, member: &WorkerKey) -> Result<bool, Error> {
    let row = call(inner, &DRAIN, &[&member.to_string(), &standing()]).await?;
    // Whoever orders this is often a command that ends at once, so this waits until it is said.
    inner.bus.flush().await;
    Ok(row.get("was_there"))
}

pub(super) async fn reap(inner: &Inner) -> Result<Reaped, Error> {
    let row = call(inner, &REAP, &[&BATCH, &standing()]).await?;
    let dead: Vec<&str> = row.get("dead");
    Ok(Reaped {
        workers: dead.into_iter().map(member_id).collect::<Result<_, _>>()?,
        sessions: big(row.get("sessions_over")),
        waiting: big(row.get("waiting_over")),
        ..Reaped::default()
    })
}
