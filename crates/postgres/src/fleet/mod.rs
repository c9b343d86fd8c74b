//! The fleet: workers, their sessions, and sessions that wait for one. Every verb is one call of a
//! function that locks the affected kinds, so of two clients that want the last free slot one gets
//! it.

mod attach;
mod beat;
mod close;
mod drain;
mod get_session;
mod get_worker;
mod join;
mod lease;
mod list_sessions;
mod list_waiting;
mod list_workers;
mod member_row;
mod page;
mod part;
mod reap;
mod release;
mod row;

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
use crate::jobs::{no_rows, wake_texts};
use crate::sql::Sql;
use crate::store::PostgresStore;

/// Longer than any duration in use, and short enough to be added to any time: a few hundred
/// thousand years.
const MAX_DURATION_MS: i64 = 1 << 53;

#[async_trait]
impl Fleet for PostgresStore {
    async fn join(&self, workers: &[WorkerEntry]) -> Result<(), Error> {
        join::join(&self.inner, workers).await
    }

    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        beat::beat(&self.inner, beat).await
    }

    async fn part(&self, workers: &[WorkerKey]) -> Result<(), Error> {
        part::part(&self.inner, workers).await
    }

    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        lease::lease(&self.inner, lease).await
    }

    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        attach::attach(&self.inner, attach).await
    }

    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        release::release(&self.inner, release).await
    }

    async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        self.announced(close::close(&self.inner, session).await)
    }

    async fn drain(&self, worker: &WorkerKey) -> Result<bool, Error> {
        self.announced(drain::drain(&self.inner, worker).await)
    }

    async fn reap(&self, _: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        reap::reap(&self.inner).await
    }

    async fn get_worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        get_worker::get_worker(&self.inner, worker).await
    }

    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error> {
        list_workers::list_workers(&self.inner, list).await
    }

    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        get_session::get_session(&self.inner, session).await
    }

    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error> {
        list_sessions::list_sessions(&self.inner, list).await
    }

    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error> {
        list_waiting::list_waiting(&self.inner).await
    }
}

/// Calls a function, and announces the wake-ups that it returns.
async fn call(inner: &Inner, sql: &'static Sql, params: Params<'_>) -> Result<Row, Error> {
    let row = inner.pool.query(sql, params).await?.into_iter().next().ok_or_else(no_rows)?;
    inner.announce_texts(wake_texts(&row)).await;
    Ok(row)
}

/// A duration in milliseconds.
fn duration_ms(duration: Duration) -> i64 {
    millis(duration).min(MAX_DURATION_MS)
}

/// How long an order to a worker stands, in milliseconds.
fn order_timeout_ms() -> i64 {
    duration_ms(ORDER_TIMEOUT)
}
