//! One exchange with the store: removals, joins and heartbeats.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::fleet::WorkerKey;
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerOrders, WorkerStatus};
use tidemill_core::{Error, Store};
use tokio::time::timeout;

use crate::timing::RECOVERY_GRACE;

/// How long the store may take to answer. Stores have timeouts of their own; this one is a
/// backstop.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the store must learn.
#[derive(Debug, Default)]
pub(super) struct StoreSync {
    pub(super) parting: Vec<WorkerKey>,
    pub(super) joining: Vec<(u64, WorkerEntry)>,
    /// Workers that have sent a join before.
    pub(super) beating: Vec<(u64, WorkerEntry)>,
}

/// The store's answers, as far as it gave any.
#[derive(Debug, Default)]
pub(super) struct SyncResult {
    pub(super) parted: Vec<WorkerKey>,
    pub(super) joined: Vec<u64>,
    /// With the status that was sent.
    pub(super) beats: Vec<(u64, WorkerOrders, WorkerStatus)>,
    pub(super) error: Option<Error>,
}

impl StoreSync {
    pub(super) async fn run(self, store: Arc<dyn Store>) -> SyncResult {
        let mut result = SyncResult::default();
        result.error = self.run_steps(&*store, &mut result).await.err();
        result
    }

    /// Removals first: if nothing else gets through, no client is sent to a dead browser.
    async fn run_steps(self, store: &dyn Store, result: &mut SyncResult) -> Result<(), Error> {
        if !self.parting.is_empty() {
            with_timeout("part", store.part(&self.parting)).await?;
            result.parted = self.parting;
        }
        if !self.joining.is_empty() {
            let (numbers, entries): (Vec<_>, Vec<_>) = self.joining.into_iter().unzip();
            with_timeout("join", store.join(&entries)).await?;
            result.joined = numbers;
        }
        if !self.beating.is_empty() {
            let (numbers, entries): (Vec<_>, Vec<_>) = self.beating.into_iter().unzip();
            let orders =
                with_timeout("beat", store.beat(BeatParams { workers: &entries, grace: RECOVERY_GRACE }))
                    .await?;
            let statuses = entries.iter().map(|entry| entry.status);
            let beats = numbers.into_iter().zip(orders).zip(statuses);
            result.beats = beats.map(|((number, orders), status)| (number, orders, status)).collect();
        }
        Ok(())
    }
}

/// The result of `call`, or an error if there was none in time.
pub(super) async fn with_timeout<T>(
    what: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(STORE_TIMEOUT, call).await.unwrap_or_else(|_| {
        let message = format!("{what} was not answered within {STORE_TIMEOUT:?}");
        Err(Error::Unavailable { message, source: None })
    })
}
