//! The lease client: acquires browser sessions, renews them while they are held, and releases them.
//! The gateway and browser jobs use it.
//!
//! `acquire` asks the store for a browser, and `waiters` is the local queue until there is one.
//! `sessions` is the table of held sessions and of those to release; `renew` sends both to the store.
//! A wake-up only causes a call: the store decides.

mod acquire;
mod renew;
mod sessions;
mod waiters;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidemill_core::store::Fleet;
use tidemill_core::{Error, Store};

pub(crate) use acquire::{PendingLease, WaitPolicy};
pub(crate) use sessions::{CloseReason, CloseSignal, ConnectionState, HeldSession, SessionSpec};

use crate::histogram::Histogram;
use sessions::Sessions;
use waiters::BrowserWaiters;

/// How a lease client differs between the gateway and browser jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClientOptions {
    /// The duration of a lease.
    pub(crate) lease: Duration,
    /// How often a waiter polls without a wake-up.
    pub(crate) poll_interval: Duration,
    /// Whether `Wake::Everything` rechecks all sessions. Without it, the next renewal finds a missed
    /// end. A store that shares its file with busy writers publishes `Everything` all the time.
    pub(crate) rechecks_everything: bool,
    /// Whether the store counts as available before the first call.
    pub(crate) starts_reachable: bool,
}

/// Acquires, renews and releases sessions.
#[derive(Debug)]
pub(crate) struct LeaseClient {
    pub(crate) store: Arc<dyn Store>,
    options: LeaseClientOptions,
    pub(crate) sessions: Sessions,
    pub(crate) waiters: BrowserWaiters,
    /// How long lease calls took.
    pub(crate) lease_seconds: Histogram,
    /// Whether the last store call was answered.
    store_reachable: AtomicBool,
}

impl LeaseClient {
    pub(crate) fn new(store: Arc<dyn Store>, options: LeaseClientOptions) -> Arc<Self> {
        Arc::new(Self {
            store,
            options,
            sessions: Sessions::default(),
            waiters: BrowserWaiters::default(),
            lease_seconds: Histogram::default(),
            store_reachable: AtomicBool::new(options.starts_reachable),
        })
    }

    pub(crate) fn fleet(&self) -> &dyn Fleet {
        &*self.store
    }

    /// Whether the last store call was answered.
    pub(crate) fn is_store_reachable(&self) -> bool {
        self.store_reachable.load(Ordering::Relaxed)
    }

    /// Records whether the store answered, and logs a change once.
    pub(crate) fn record_store_result<T>(&self, result: &Result<T, Error>) {
        let unavailable = result.as_ref().err().filter(|error| error.is_transient());
        let was_reachable = self.store_reachable.swap(unavailable.is_none(), Ordering::Relaxed);
        match unavailable {
            Some(error) if was_reachable => {
                tracing::warn!(error = error.full_message(), "the store is unavailable; sessions continue")
            }
            None if !was_reachable => tracing::info!("the store is available"),
            _ => {}
        }
    }
}

/// The error of a call that was not answered in time.
fn unanswered() -> Error {
    Error::Unavailable { message: "the store did not answer in time".into(), source: None }
}
