//! The fleet: members, sessions and lines. Every verb is one call of a function that locks the kinds it is about, so of two
//! that want a last place one gets it.

mod inspect;
mod lease;
mod members;
mod row;
mod sessions;

use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::fleet::{SessionId, WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Attached, BeatParams, LeaseParams, Leased, ListSessionsParams, ListWorkersParams,
    ORDER_TIMEOUT, Reaped, ReleaseParams, SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerOrders,
};
use tidemill_core::store::{Fleet, Page};
use tokio_postgres::Row;

use crate::Inner;
use crate::connection::Params;
use crate::jobs::{nothing, woken};
use crate::sql::Sql;

/// Longer than anything lasts, and short enough to be added to any time: a few hundred thousand years, in ms.
const FOREVER: i64 = 1 << 53;

#[async_trait]
impl Fleet for Inner {
    async fn join(&self, members: &[WorkerEntry]) -> Result<(), Error> {
        members::join(self, members).await
    }

    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        members::beat(self, beat).await
    }

    async fn part(&self, members: &[WorkerKey]) -> Result<(), Error> {
        members::part(self, members).await
    }

    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        lease::lease(self, lease).await
    }

    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        sessions::attach(self, attach).await
    }

    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        sessions::release(self, release).await
    }

    async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        let answer = sessions::close(self, session).await;
        self.announce_unknown(&answer);
        answer
    }

    async fn drain(&self, member: &WorkerKey) -> Result<bool, Error> {
        let answer = members::drain(self, member).await;
        self.announce_unknown(&answer);
        answer
    }

    async fn reap(&self, _: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        members::reap(self).await
    }

    async fn get_worker(&self, member: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        inspect::member(self, member).await
    }

    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error> {
        inspect::members(self, list).await
    }

    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        inspect::session(self, session).await
    }

    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error> {
        inspect::sessions(self, list).await
    }

    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error> {
        inspect::lines(self).await
    }
}

/// Calls a function, and announces what it has woken.
async fn call(inner: &Inner, sql: &'static Sql, params: Params<'_>) -> Result<Row, Error> {
    let row = inner.pool.query(sql, params).await?.into_iter().next().ok_or_else(nothing)?;
    inner.announce_woken(woken(&row)).await;
    Ok(row)
}

/// How long something lasts, in ms.
fn span(duration: Duration) -> i64 {
    millis(duration).min(FOREVER)
}

/// How long an order stands.
fn standing() -> i64 {
    span(ORDER_TIMEOUT)
}
