//! A run, from outside.

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
use super::patience::within;
use crate::wire::{entries, read_all};

/// The first run that a process waits for was not watched from before it was started. It is not looked at before this: if
/// it ends by then, that is most likely heard, and one look is enough.
const YOUNG: Duration = Duration::from_millis(20);

/// A run that was started.
pub struct RunHandle<O> {
    pub(super) client: Client,
    pub(super) run: RunId,
    /// When this very handle started it, if it did.
    begun: Option<Instant>,
    /// Made before the run was, and left to the first who waits for its end: whatever it has not heard has not happened.
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
        Self { client, run, begun: self.begun, watch, output: PhantomData }
    }
}

impl<O> RunHandle<O> {
    pub(super) fn new(client: &Client, run: RunId, created: bool) -> Self {
        let (client, begun) = (client.clone(), created.then(Instant::now));
        Self { client, run, begun, watch: Arc::default(), output: PhantomData }
    }

    /// A run that has just been started, and was watched from before.
    pub(super) fn watched(client: &Client, run: RunId, watch: Option<CompletionWatch>) -> Self {
        Self { watch: Arc::new(Mutex::new(watch)), ..Self::new(client, run, true) }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &**self.client.store()
    }

    /// The run's identity.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Whether this very call started it.
    pub fn is_new(&self) -> bool {
        self.begun.is_some()
    }

    /// The run as it is now.
    pub async fn info(&self) -> Result<RunInfo, RunError> {
        let info = until_answered(self.store().clock(), || self.store().get_run(&self.run)).await?;
        info.ok_or_else(|| RunError::NotFound(self.run.clone()))
    }

    /// The run's journal, as it can be kept as a test.
    pub async fn journal(&self) -> Result<Journal, RunError> {
        let all = read_all(self.store(), &self.run).await?;
        let Some((first, _)) = all.first() else { return Err(RunError::NotFound(self.run.clone())) };
        let base = first.saturating_sub(1);
        let entries = entries(&all).map_err(|halt| Error::Corrupt(halt.to_string()))?;
        Ok(Journal { run: self.run.clone(), base, entries })
    }

    /// Waits until the run has ended.
    pub(super) async fn closed(&self) -> Result<RunInfo, RunError> {
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

    /// A watch, when it is worth a first look.
    async fn watch(&self) -> CompletionWatch {
        let early = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut watch) = early {
            watch.next().await;
            return watch;
        }
        let mut watch = self.client.watch(&self.run.task());
        let age = self.begun.map_or(YOUNG, |begun| begun.elapsed());
        let _ = tokio::time::timeout(YOUNG.saturating_sub(age), watch.next()).await;
        watch
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits for the run's end and returns its output.
    pub async fn result(&self) -> Result<O, RunError> {
        self.open(self.closed().await?)
    }

    /// Waits for the run's end, but no longer than this.
    pub async fn result_within(&self, limit: Duration) -> Result<O, RunError> {
        match within(self.store(), limit, self.closed()).await {
            Some(info) => self.open(info?),
            None => Err(RunError::TimedOut { run: self.run.clone(), what: "result", waited: limit }),
        }
    }

    fn open(&self, info: RunInfo) -> Result<O, RunError> {
        let RunInfo { run, output, error, .. } = info;
        match info.status {
            RunStatus::Completed => {
                let output: &[u8] = if output.is_empty() { b"null" } else { &output };
                serde_json::from_slice(output).map_err(|error| RunError::Unfit(run, error))
            }
            RunStatus::Failed => Err(RunError::Failed { run, message: error.unwrap_or_default() }),
            RunStatus::Cancelled => Err(RunError::Cancelled(run)),
            RunStatus::Terminated => Err(RunError::Terminated { run, reason: error.unwrap_or_default() }),
            RunStatus::Running => Err(Error::Corrupt(format!("run `{run}` has ended and runs")).into()),
        }
    }
}
