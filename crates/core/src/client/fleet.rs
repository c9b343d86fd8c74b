//! The handle of the fleet: its workers, its browser sessions, and who waits for a browser.

use super::{Client, PageParams};
use crate::fleet::{SessionId, WorkerKey, WorkerKind};
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::fleet::{ListSessionsParams, ListWorkersParams, SessionInfo, WaitingInfo, WorkerInfo};
use crate::store::{Error, Page};

/// The fleet: browsers and job workers, and the sessions on browsers. Created by [`Client::fleet`].
#[derive(Debug, Clone)]
pub struct FleetHandle {
    client: Client,
}

impl Client {
    /// The fleet of this store.
    ///
    /// ```
    /// # use tidemill_core::client::PageParams;
    /// # use tidemill_core::fleet::WorkerKind;
    /// # async fn drain_all(client: tidemill_core::Client) -> Result<(), tidemill_core::Error> {
    /// let fleet = client.fleet();
    /// let browsers = fleet.workers(Some(&WorkerKind::chromium()), PageParams::first(100)).await?;
    /// for browser in browsers.items {
    ///     fleet.drain(&browser.worker.id).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fleet(&self) -> FleetHandle {
        FleetHandle { client: self.clone() }
    }
}

impl FleetHandle {
    /// A page of workers, of one kind or all, in a stable order.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn workers(
        &self,
        kind: Option<&WorkerKind>,
        page: PageParams,
    ) -> Result<Page<WorkerInfo>, Error> {
        let (store, limit) = (&self.client.store, page.limit);
        let list = || store.list_workers(ListWorkersParams { kind, cursor: page.cursor.clone(), limit });
        until_answered(store.clock(), list).await
    }

    /// One worker; `None` if it is not in the store.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn worker(&self, worker: &WorkerKey) -> Result<Option<WorkerInfo>, Error> {
        let store = &self.client.store;
        until_answered(store.clock(), || store.get_worker(worker)).await
    }

    /// Orders a worker to drain: it gets no new session or job, and stops when its current work has
    /// ended. Returns whether it exists.
    ///
    /// # Errors
    /// The store's error. After [`Error::Unanswered`] it may have been ordered to drain.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have ordered it to drain.
    pub async fn drain(&self, worker: &WorkerKey) -> Result<bool, Error> {
        let store = &self.client.store;
        until_answered(store.clock(), || store.drain(worker)).await
    }

    /// A page of sessions that have a browser, of one worker or all, in a stable order.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn sessions(
        &self,
        worker: Option<&WorkerKey>,
        page: PageParams,
    ) -> Result<Page<SessionInfo>, Error> {
        let (store, limit) = (&self.client.store, page.limit);
        let list = || store.list_sessions(ListSessionsParams { worker, cursor: page.cursor.clone(), limit });
        until_answered(store.clock(), list).await
    }

    /// One session; `None` if it is not in the store or waits for a browser.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn session(&self, session: &SessionId) -> Result<Option<SessionInfo>, Error> {
        let store = &self.client.store;
        until_answered(store.clock(), || store.get_session(session)).await
    }

    /// Closes a session: its holder is notified at once and ends it. A session without a connected
    /// client ends immediately. Returns whether it existed. If an earlier try got no answer and the
    /// session is gone, it counts as closed by that try.
    ///
    /// # Errors
    /// The store's error. After [`Error::Unanswered`] it may have been closed.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have closed it.
    pub async fn close(&self, session: &SessionId) -> Result<bool, Error> {
        let store = &self.client.store;
        let Answered { value, after_unknown } =
            repeat_until_answered(store.clock(), || store.close(session)).await?;
        Ok(value || after_unknown)
    }

    /// The wait lists that are not empty: how many sessions wait for which kind of browser.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn waiting(&self) -> Result<Vec<WaitingInfo>, Error> {
        let store = &self.client.store;
        until_answered(store.clock(), || store.list_waiting()).await
    }
}
