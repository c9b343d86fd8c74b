//! The builder of a worker: handlers, shared state, queues and settings.

use std::any::type_name;
use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidemill_core::limits::MAX_DURATION;
use tidemill_core::{Backoff, Client, Envelope, Guarantee, Job, Kind, Outcome, Queue, QueueName};
use tokio::sync::broadcast;

use crate::config::Config;
use crate::error::{BuildError, WorkerError};
use crate::event::Event;
use crate::extension::Extension;
use crate::extension::ExtensionTask;
use crate::handler::context::JobContext;
use crate::handler::extract::{Extract, MissingState, StateMap};
use crate::handler::registry::{RegisteredHandler, Registry};
use crate::handler::{Handler, HandlerFn, TypedHandler, UntypedHandler};
use crate::queue_slots::{MAX_CLAIM_JOBS, QueueSlots};
use crate::shared::WorkerShared;
use crate::stats::{Report, Stats};
use crate::worker::Worker;

/// Capacity of the event channel. A slow subscriber misses the oldest events; it never delays jobs.
const EVENT_BUFFER: usize = 4096;

/// Creates a handler once all shared state is known.
type BuildHandler = Box<dyn FnOnce(&StateMap) -> Result<Box<dyn Handler>, MissingState> + Send>;

/// A handler as given to the builder, not yet created.
struct HandlerSpec {
    /// `None`: the fallback handler, for kinds without a handler of their own.
    kind: Option<String>,
    prepare: BuildHandler,
    backoff: Backoff,
    timeout: Option<Duration>,
}

/// A queue as given to the builder, not yet validated.
pub(crate) struct QueueConfig {
    pub(crate) name: String,
    pub(crate) guarantee: Guarantee,
    pub(crate) concurrency: usize,
}

/// Configures a worker: handlers, the state they share, and the queues they serve.
#[must_use = "a worker does nothing before `.run_until(…).await` or `.drain().await`"]
pub struct WorkerBuilder {
    pub(crate) client: Client,
    pub(crate) states: StateMap,
    duplicate_state: Option<&'static str>,
    handlers: Vec<HandlerSpec>,
    pub(crate) queues: Vec<QueueConfig>,
    /// Extensions, such as the workflow engine, installed by `build`.
    pub(crate) extensions: Vec<Box<dyn Extension>>,
    /// Tasks that extensions run next to the worker's parts.
    pub(crate) extension_tasks: Vec<ExtensionTask>,
    config: Config,
    prefetch: usize,
    batch_size: Option<usize>,
    stats: Stats,
    events: OnceLock<broadcast::Sender<Event>>,
}

impl WorkerBuilder {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            states: StateMap::default(),
            duplicate_state: None,
            handlers: Vec::new(),
            queues: Vec::new(),
            config: Config::default(),
            prefetch: 0,
            batch_size: None,
            extensions: Vec::new(),
            extension_tasks: Vec::new(),
            stats: Stats::default(),
            events: OnceLock::new(),
        }
    }

    /// Shares `state` with every handler that takes a `State<T>`.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        if !self.states.insert(state) {
            self.duplicate_state = Some(type_name::<T>());
        }
        self
    }

    /// Runs jobs of type `J` with `function`.
    pub fn handle<J, Args, F>(mut self, function: F) -> Self
    where
        J: Job,
        Args: Extract,
        F: HandlerFn<J, Args>,
    {
        let prepare: BuildHandler = Box::new(move |states| {
            let source = Args::find(states)?;
            Ok(Box::new(TypedHandler::<J, Args, F>::new(function, source)))
        });
        let (kind, backoff, timeout) = (Some(J::KIND.to_owned()), J::BACKOFF, J::TIMEOUT);
        self.handlers.push(HandlerSpec { kind, prepare, backoff, timeout });
        self
    }

    /// Runs jobs of `kind` with `function`, which receives the envelope unparsed.
    pub fn handle_untyped<F, Running>(self, kind: &str, function: F) -> Self
    where
        F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
        Running: Future<Output = Outcome> + Send + 'static,
    {
        self.add_untyped(Some(kind.to_owned()), function)
    }

    /// Runs jobs of every kind without a handler of its own.
    pub fn handle_any<F, Running>(self, function: F) -> Self
    where
        F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
        Running: Future<Output = Outcome> + Send + 'static,
    {
        self.add_untyped(None, function)
    }

    fn add_untyped<F, Running>(mut self, kind: Option<String>, function: F) -> Self
    where
        F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
        Running: Future<Output = Outcome> + Send + 'static,
    {
        let prepare: BuildHandler = Box::new(move |_| Ok(Box::new(UntypedHandler(function))));
        self.handlers.push(HandlerSpec { kind, prepare, backoff: Backoff::DEFAULT, timeout: None });
        self
    }

    /// Serves the at-least-once queue `name`. Up to `concurrency` of its jobs run at once.
    pub fn queue(mut self, name: &str, concurrency: usize) -> Self {
        let guarantee = Guarantee::AtLeastOnce;
        self.queues.push(QueueConfig { name: name.to_owned(), guarantee, concurrency });
        self
    }

    /// Serves the at-most-once queue `name`. Up to `concurrency` of its jobs run at once.
    pub fn at_most_once(mut self, name: &str, concurrency: usize) -> Self {
        let guarantee = Guarantee::AtMostOnce;
        self.queues.push(QueueConfig { name: name.to_owned(), guarantee, concurrency });
        self
    }

    /// Sets the lease of claimed jobs (default: 30 s). If the process dies, its jobs run again
    /// after the lease has expired.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// Alias of [`lease`](Self::lease): the time after which another worker takes over the jobs of
    /// a dead worker.
    pub fn claim_min_idle(self, idle: Duration) -> Self {
        self.lease(idle)
    }

    /// Sets how long a claim waits for jobs. By default the time grows with the number of queues,
    /// so that an idle worker causes almost no load on its store.
    pub fn block(mut self, wait: Duration) -> Self {
        self.config.block = Some(wait);
        self
    }

    /// Limits the jobs per claim, divided among the worker's queues: with 10 jobs and 3 queues, one
    /// queue claims up to 4 and two claim up to 3. By default a queue claims as many jobs as it has
    /// free slots.
    pub fn batch_size(mut self, jobs: usize) -> Self {
        self.batch_size = Some(jobs);
        self
    }

    /// Keeps at most this many ended runs of each workflow (default: 10,000). The oldest runs are
    /// removed first, even before their retention time is over. Recently ended runs are exempt: see
    /// [`keep_runs_at_least`](Self::keep_runs_at_least).
    pub fn keep_runs(mut self, max_runs: u64) -> Self {
        self.config.ended_runs.max_kept = max_runs;
        self
    }

    /// Sets how long an ended run is exempt from the limit of [`keep_runs`](Self::keep_runs)
    /// (default: 1 hour). During this time its result can be read, and its key starts no second
    /// run.
    pub fn keep_runs_at_least(mut self, age: Duration) -> Self {
        self.config.ended_runs.min_age = age;
        self
    }

    /// Claims up to this many jobs of each queue in advance, beyond its concurrency (default: 0).
    ///
    /// A prefetched job is held and marked as started right before it runs, so a crash before that
    /// costs no attempt. The mark is a separate store call. Prefetching pays only where claims are
    /// expensive; more concurrency is nearly always the better choice.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = jobs;
        self
    }

    /// Sets how long running handlers may take to end when the worker shuts down (default: 25 s).
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.config.shutdown_grace = grace;
        self
    }

    /// Sets how long a cancelled handler that watches [`JobContext::cancelled`] may take to clean
    /// up (default: 5 s). A handler that does not watch is dropped immediately.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.config.cancel_grace = grace;
        self
    }

    /// Keeps this worker out of the fleet: it is not listed and cannot be ordered to drain.
    pub fn anonymous(mut self) -> Self {
        self.config.anonymous = true;
        self
    }

    /// A live view of this worker's counters.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Subscribes to events: one for each attempt that ends from now on. Costs nothing unless
    /// called.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.get_or_init(|| broadcast::Sender::new(EVENT_BUFFER)).subscribe()
    }

    /// Installs the extensions, validates the configuration and creates the worker.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the first invalid setting.
    pub fn build(self) -> Result<Worker, BuildError> {
        self.install()?.build_installed()
    }

    fn build_installed(self) -> Result<Worker, BuildError> {
        if let Some(state) = self.duplicate_state {
            return Err(BuildError::DuplicateState(state));
        }
        if self.config.lease < Duration::from_millis(100) {
            return Err(BuildError::LeaseTooShort(self.config.lease));
        }
        if self.config.lease > MAX_DURATION {
            return Err(BuildError::LeaseTooLong(self.config.lease));
        }
        let queue_slots = queue_slots(self.queues, self.prefetch, self.batch_size)?;
        let registry = build_registry(self.handlers, &self.states)?;
        self.stats.attach(queue_slots.clone());
        let shared = WorkerShared::new(self.client, self.config, queue_slots, self.events.into_inner());
        Ok(Worker::new(shared, registry, self.stats, self.extension_tasks))
    }

    /// Runs until `until` completes or the fleet orders this worker to drain, then shuts down in
    /// order. [`Report::stopped_by_fleet`] tells which of the two happened.
    ///
    /// # Errors
    /// Fails if the configuration is invalid, or if a part of the worker ended unexpectedly.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped worker does not shut down in order. Its handlers continue without a
    /// lease, and their jobs run again when their leases expire. Complete `until` instead.
    pub async fn run_until<T>(self, until: impl Future<Output = T>) -> Result<Report, WorkerError> {
        self.build()?.run_until(until).await
    }

    /// Runs until no job of its queues is ready, running or due. Jobs scheduled for later,
    /// including retries, remain. Jobs of paused queues are not waited for.
    ///
    /// # Errors
    /// As for [`run_until`](Self::run_until).
    ///
    /// # Cancel safety
    /// Not cancel safe: see [`run_until`](Self::run_until).
    pub async fn drain(self) -> Result<Report, WorkerError> {
        self.build()?.drain().await
    }

    /// Runs until its queues are empty: like [`drain`](Self::drain), but waits for scheduled jobs
    /// too.
    ///
    /// # Errors
    /// As for [`run_until`](Self::run_until).
    ///
    /// # Cancel safety
    /// Not cancel safe: see [`run_until`](Self::run_until).
    pub async fn drain_scheduled(self) -> Result<Report, WorkerError> {
        self.build()?.drain_scheduled().await
    }
}

fn queue_slots(
    queues: Vec<QueueConfig>,
    prefetch: usize,
    batch_size: Option<usize>,
) -> Result<Vec<Arc<QueueSlots>>, BuildError> {
    if queues.is_empty() {
        return Err(BuildError::NoQueue);
    }
    let count = queues.len();
    let (mut seen, mut queue_slots) = (HashSet::new(), Vec::with_capacity(queues.len()));
    for QueueConfig { name, guarantee, concurrency } in queues {
        let queue = Queue { name: QueueName::new(&name)?, guarantee };
        if concurrency == 0 {
            return Err(BuildError::ZeroConcurrency(queue));
        }
        if !seen.insert(queue.clone()) {
            return Err(BuildError::DuplicateQueue(queue));
        }
        let max_claim = batch_size.map_or(MAX_CLAIM_JOBS, |jobs| share(jobs, count, queue_slots.len()));
        queue_slots.push(Arc::new(QueueSlots::new(queue, concurrency, prefetch, max_claim)));
    }
    Ok(queue_slots)
}

/// The share of part `index` when `whole` is divided into `parts`: equal shares, the first ones one
/// larger, and at least 1.
fn share(whole: usize, parts: usize, index: usize) -> usize {
    let rest = usize::from(index < whole % parts);
    (whole / parts + rest).clamp(1, MAX_CLAIM_JOBS)
}

fn build_registry(handlers: Vec<HandlerSpec>, states: &StateMap) -> Result<Registry, BuildError> {
    if handlers.is_empty() {
        return Err(BuildError::NoHandler);
    }
    let mut registry = Registry::default();
    for HandlerSpec { kind, prepare, backoff, timeout } in handlers {
        let name = kind.as_deref().unwrap_or("any");
        let handler = prepare(states).map_err(|missing| missing.into_build_error(name))?;
        let kind = kind.as_deref().map(Kind::new).transpose()?;
        let registered = RegisteredHandler::new(handler, backoff, timeout);
        match kind {
            None => registry.add_fallback(registered).then_some(()).ok_or(BuildError::DuplicateFallback)?,
            Some(kind) => {
                registry.add(&kind, registered).then_some(()).ok_or(BuildError::DuplicateKind(kind))?
            }
        }
    }
    Ok(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_spread_over_the_queues() {
        let shares: Vec<_> = (0..3).map(|index| share(10, 3, index)).collect();
        assert_eq!(shares, [4, 3, 3]);
        assert_eq!((share(10, 2, 1), share(1, 3, 2), share(0, 1, 0)), (5, 1, 1));
    }
}
