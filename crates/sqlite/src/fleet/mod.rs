//! The fleet: members, sessions and lines. Everything happens under the one write lock, so of two that want a last place
//! one gets it.

mod attach;
mod choice;
mod inspect;
mod lease;
mod line;
mod members;
mod reap;
mod row;
mod sessions;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Params, Row};
use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Attached, BeatParams, LeaseParams, Leased, ListSessionsParams, ListWorkersParams, Reaped,
    ReleaseParams, SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerOrders,
};
use tidemill_core::store::{Fleet, Page};

use crate::call::Tx;
use crate::error::Failure;
use crate::store::SqliteStore;

#[async_trait]
impl Fleet for SqliteStore {
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
        attach::attach(self, attach).await
    }

    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        sessions::release(self, release).await
    }

    async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        sessions::close(self, session).await
    }

    async fn drain(&self, member: &WorkerKey) -> Result<bool, Error> {
        members::drain(self, member).await
    }

    async fn reap(&self, _: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        reap::reap(self).await
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

/// Runs a statement; how many rows it has changed.
fn run(tx: &Tx<'_>, sql: &str, key: impl Params) -> Result<usize, Failure> {
    Ok(tx.connection.prepare_cached(sql)?.execute(key)?)
}

/// The first row, if there is one.
fn first<T>(
    tx: &Tx<'_>,
    sql: &str,
    key: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut statement = tx.connection.prepare_cached(sql)?;
    // What is read may fail in ways that SQLite does not know.
    statement.query_row(key, |row| Ok(read(row))).optional()?.transpose()
}

/// Every row.
fn all<T>(
    tx: &Tx<'_>,
    sql: &str,
    key: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut statement = tx.connection.prepare_cached(sql)?;
    let mut rows = statement.query(key)?;
    let mut read_rows = Vec::new();
    while let Some(row) = rows.next()? {
        read_rows.push(read(row)?);
    }
    Ok(read_rows)
}
