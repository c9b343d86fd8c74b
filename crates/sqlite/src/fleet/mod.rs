//! The fleet: workers, their sessions, and sessions that wait for one. Everything happens under the
//! one write lock, so of two clients that want the last free slot one gets it.

mod attach;
mod beat;
mod choose_worker;
mod close;
mod drain;
mod get_session;
mod get_worker;
mod join;
mod lease;
mod list_sessions;
mod list_waiting;
mod list_workers;
mod page;
mod part;
mod reap;
mod release;
mod row;
mod session_row;
mod waiters;
mod worker_row;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Params, Row};
use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{
    AttachParams, Attached, BeatParams, LeaseParams, Leased, ListSessionsParams, ListWorkersParams, Reaped,
    ReleaseParams, SessionInfo, WaitingInfo, WorkerEntry, WorkerInfo, WorkerOrders,
};
use tidemill_core::store::{Fleet, Page};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::store::SqliteStore;

#[async_trait]
impl Fleet for SqliteStore {
    async fn join(&self, workers: &[WorkerEntry]) -> Result<(), Error> {
        join::join(self, workers).await
    }

    async fn beat(&self, beat: BeatParams<'_>) -> Result<Vec<WorkerOrders>, Error> {
        beat::beat(self, beat).await
    }

    async fn part(&self, workers: &[WorkerKey]) -> Result<(), Error> {
        part::part(self, workers).await
    }

    async fn lease(&self, lease: &LeaseParams) -> Result<Leased, Error> {
        lease::lease(self, lease).await
    }

    async fn attach(&self, attach: &[AttachParams]) -> Result<Vec<Attached>, Error> {
        attach::attach(self, attach).await
    }

    async fn release(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        release::release(self, release).await
    }

    async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        close::close(self, session).await
    }

    async fn drain(&self, worker: &WorkerKey) -> Result<bool, Error> {
        drain::drain(self, worker).await
    }

    async fn reap(&self, _: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        reap::reap(self).await
    }

    async fn get_worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        get_worker::get_worker(self, worker).await
    }

    async fn list_workers(&self, list: ListWorkersParams<'_>) -> Result<Page<WorkerInfo>, Error> {
        list_workers::list_workers(self, list).await
    }

    async fn get_session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        get_session::get_session(self, session).await
    }

    async fn list_sessions(&self, list: ListSessionsParams<'_>) -> Result<Page<SessionInfo>, Error> {
        list_sessions::list_sessions(self, list).await
    }

    async fn list_waiting(&self) -> Result<Vec<WaitingInfo>, Error> {
        list_waiting::list_waiting(self).await
    }
}

/// Runs a statement. Returns how many rows it changed.
fn run(tx: &Tx<'_>, sql: &str, key: impl Params) -> Result<usize, RequestError> {
    Ok(tx.connection.prepare_cached(sql)?.execute(key)?)
}

/// The first row, if there is one.
fn first<T>(
    tx: &Tx<'_>,
    sql: &str,
    key: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, RequestError>,
) -> Result<Option<T>, RequestError> {
    let mut statement = tx.connection.prepare_cached(sql)?;
    // Reading a row may fail with errors that SQLite does not know.
    statement.query_row(key, |row| Ok(read(row))).optional()?.transpose()
}

/// Every row.
fn all<T>(
    tx: &Tx<'_>,
    sql: &str,
    key: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, RequestError>,
) -> Result<Vec<T>, RequestError> {
    let mut statement = tx.connection.prepare_cached(sql)?;
    let mut rows = statement.query(key)?;
    let mut read_rows = Vec::new();
    while let Some(row) = rows.next()? {
        read_rows.push(read(row)?);
    }
    Ok(read_rows)
}
