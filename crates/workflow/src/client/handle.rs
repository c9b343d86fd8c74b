//! A handle to a run.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tidemill_core::retry::until_answered;
use tidemill_core::store::runs::RunInfo;
use tidemill_core::wake::CompletionWatch;
use tidemill_core::workflow::{Journal, RunId, RunStatus};
use tidemill_core::{Client, Error, Store};

use super::error::RunError;
use super::timeout::with_timeout;
use crate::task::{parse_entries, read_all};

/// A process's first run has no completion watch from before its start. Its first lookup waits this
/// long: a run that ends by then usually notifies the watch, and one lookup is enough.
const FIRST_LOOKUP_DELAY: Duration = Duration::from_millis(20);

/// A handle to a run.
pub struct RunHandle<O> {
    pub(super) client: Client,
    pub(super) run: RunId,
    /// When this handle started the run, if it did.
    started_at: Option<Instant>,
    /// Created before the run and taken by the first waiter. It misses no completion.
    watch: Arc<Mutex<Option<CompletionWatch>>>,
    output: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunHandle").field(&self.run).finish()
    }
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> Self {
        let (client, run, watch) = (self.client.clone(), self.run.clone(), self.watch.clone());
        Self { client, run, started_at: self.started_at, watch, output: PhantomData }
    }
}

impl<O> RunHandle<O> {
    pub(super) fn new(client: &Client, run: RunId, created: bool) -> Self {
        let (client, result) = (client.clone(), created.then(Instant::now));
        Self { client, run, started_at: result, watch: Arc::default(), output: PhantomData }
    }

    /// A handle to a new run with a watch that was created before it.
    pub(super) fn with_watch(client: &Client, run: RunId, watch: Option<CompletionWatch>) -> Self {
        Self { watch: Arc::new(Mutex::new(watch)), ..Self::new(client, run, true) }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &**self.client.store()
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Whether this handle's call created the run; `false` if a run with its id or key existed.
    pub fn created(&self) -> bool {
        self.started_at.is_some()
    }

    /// The run's current state.
    ///
    /// # Errors
    /// [`RunError::NotFound`] if it does not exist; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn info(&self) -> Result<RunInfo, RunError> {
        let info = until_answered(self.store().clock(), || self.store().get_run(&self.run)).await?;
        info.ok_or_else(|| RunError::NotFound(self.run.clone()))
    }

    /// The run's journal, which can be saved as a regression test.
    ///
    /// # Errors
    /// As [`info`](Self::info), and [`Error::Corrupt`] if an entry cannot be read.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn journal(&self) -> Result<Journal, RunError> {
        let all = read_all(self.store(), &self.run).await?;
        let Some((first, _)) = all.first() else { return Err(RunError::NotFound(self.run.clone())) };
        let base = first.saturating_sub(1);
        let entries = parse_entries(&all).map_err(|blocked| Error::Corrupt(blocked.to_string()))?;
        Ok(Journal { run: self.run.clone(), base, entries })
    }

    /// Waits until the run has ended.
    pub(super) async fn wait_closed(&self) -> Result<RunInfo, RunError> {
        let mut watch = self.watch().await;
        loop {
            match self.info().await {
                Ok(info) if info.status.is_closed() => return Ok(info),
                Ok(_) => {}
                Err(RunError::Store(error)) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            watch.next().await;
        }
    }

    /// A watch, returned when a first lookup is due.
    async fn watch(&self) -> CompletionWatch {
        let early = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut watch) = early {
            watch.next().await;
            return watch;
        }
        let mut watch = self.client.watch(&self.run.task());
        let age = self.started_at.map_or(FIRST_LOOKUP_DELAY, |result| result.elapsed());
        let _ = tokio::time::timeout(FIRST_LOOKUP_DELAY.saturating_sub(age), watch.next()).await;
        watch
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits for the run's end and returns its output. Transient errors of the store are retried.
    ///
    /// # Errors
    /// [`RunError`], if the run has no output, or not one of this type.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self) -> Result<O, RunError> {
        self.read_output(self.wait_closed().await?)
    }

    /// Like [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`RunError::TimedOut`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for(&self, timeout: Duration) -> Result<O, RunError> {
        match with_timeout(self.store(), timeout, self.wait_closed()).await {
            Some(info) => self.read_output(info?),
            None => Err(RunError::TimedOut { run: self.run.clone(), what: "result", waited: timeout }),
        }
    }

    fn read_output(&self, info: RunInfo) -> Result<O, RunError> {
        let RunInfo { run, output, error, .. } = info;
        match info.status {
            RunStatus::Completed => {
                let output: &[u8] = if output.is_empty() { b"null" } else { &output };
                serde_json::from_slice(output).map_err(|error| RunError::Unreadable(run, error))
            }
            RunStatus::Failed => Err(RunError::Failed { run, message: error.unwrap_or_default() }),
            RunStatus::Cancelled => Err(RunError::Cancelled(run)),
            RunStatus::Terminated => Err(RunError::Terminated { run, reason: error.unwrap_or_default() }),
            RunStatus::Running => Err(Error::Corrupt(format!("run `{run}` has ended and runs")).into()),
        }
    }
}
