//! Describing a worker: what it can do, where, and how.

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

/// Who listens slowly misses the oldest events rather than holding up the jobs.
const EVENT_BUFFER: usize = 4096;

/// Makes a handler once all state is known.
type BuildHandler = Box<dyn FnOnce(&StateMap) -> Result<Box<dyn Handler>, MissingState> + Send>;

/// A handler that was described, not yet built.
struct HandlerSpec {
    /// `None`: for every kind that has no handler of its own.
    kind: Option<String>,
    prepare: BuildHandler,
    backoff: Backoff,
    timeout: Option<Duration>,
}

/// A worker: handlers, the state they share, and the queues they serve.
#[must_use = "a worker does nothing before `.run_until(…).await` or `.drain().await`"]
pub struct WorkerBuilder {
    pub(crate) client: Client,
    pub(crate) states: StateMap,
    duplicate_state: Option<&'static str>,
    handlers: Vec<HandlerSpec>,
    pub(crate) queues: Vec<(String, Guarantee, usize)>,
    /// Engines on top of this one.
    pub(crate) extensions: Vec<Box<dyn Extension>>,
    /// What they run beside it.
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

    /// Runs jobs of `kind` with `function`, which gets the envelope as it is.
    pub fn handle_untyped<F, Running>(self, kind: &str, function: F) -> Self
    where
        F: Fn(Envelope, JobContext) -> Running + Clone + Send + Sync + 'static,
        Running: Future<Output = Outcome> + Send + 'static,
    {
        self.add_untyped(Some(kind.to_owned()), function)
    }

    /// Runs jobs of every kind that has no handler of its own.
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

    /// Serves the at-least-once queue `name`, running up to `concurrency` of its jobs at once.
    pub fn queue(mut self, name: &str, concurrency: usize) -> Self {
        self.queues.push((name.to_owned(), Guarantee::AtLeastOnce, concurrency));
        self
    }

    /// Serves the at-most-once queue `name`, running up to `concurrency` of its jobs at once.
    pub fn at_most_once(mut self, name: &str, concurrency: usize) -> Self {
        self.queues.push((name.to_owned(), Guarantee::AtMostOnce, concurrency));
        self
    }

    /// Leases jobs for this long (30 s unless set). If the process dies, they come back when it is over.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// Another name for [`lease`](Self::lease): how long the work of a worker that died is left alone before another
    /// worker takes it.
    pub fn claim_min_idle(self, idle: Duration) -> Self {
        self.lease(idle)
    }

    /// Lets a claim wait this long for work. Unless set, it is chosen so that an idle worker costs its store next to
    /// nothing.
    pub fn block(mut self, wait: Duration) -> Self {
        self.config.block = Some(wait);
        self
    }

    /// Claims at most this many jobs at a time, spread over the worker's queues: of 10 over 3 queues one gets 4 and two
    /// get 3. Unless set, a queue claims as many as it has room for.
    pub fn batch_size(mut self, jobs: usize) -> Self {
        self.batch_size = Some(jobs);
        self
    }

    /// Keeps at most this many ended runs of each workflow (10,000 unless set); the oldest go first, whatever the time
    /// they were to be kept for. Those that have only just ended stay all the same:
    /// [`keep_runs_at_least`](Self::keep_runs_at_least).
    pub fn keep_runs(mut self, max_runs: u64) -> Self {
        self.config.ended_runs.max_kept = max_runs;
        self
    }

    /// Removes no run for being one too many before it has ended this long ago (an hour unless set): until then its
    /// result can be asked for, and its key starts no second one.
    pub fn keep_runs_at_least(mut self, age: Duration) -> Self {
        self.config.ended_runs.min_age = age;
        self
    }

    /// Claims up to this many jobs of each queue beyond those that can run at once (none unless set).
    ///
    /// A job that is claimed ahead is held, and marked as started right before it runs, so that a crash does
    /// not count for it. That mark is a trip to the store of its own: claiming ahead pays only where claiming
    /// is dear, and more concurrency is nearly always the better choice.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = jobs;
        self
    }

    /// Gives running handlers this long to end when the worker shuts down (25 s unless set).
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.config.shutdown_grace = grace;
        self
    }

    /// Gives a handler that watches [`JobContext::cancelled`] this long to wind up once it is cancelled (5 s
    /// unless set). A handler that does not watch is dropped at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.config.cancel_grace = grace;
        self
    }

    /// Keeps this worker out of the fleet: it is not listed there and cannot be ordered to go.
    pub fn anonymous(mut self) -> Self {
        self.config.anonymous = true;
        self
    }

    /// A live view of this worker's counters.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Every attempt that ends from now on. Costs nothing unless called.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.get_or_init(|| broadcast::Sender::new(EVENT_BUFFER)).subscribe()
    }

    /// Checks the description.
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

    /// Runs until `until` completes or the fleet orders this worker to go, then shuts down in order. Which of the two
    /// it was is in [`Report::stopped_by_fleet`].
    pub async fn run_until<T>(self, until: impl Future<Output = T>) -> Result<Report, WorkerError> {
        self.build()?.run_until(until).await
    }

    /// Runs until its queues have nothing to do right now: no job is ready, running or due. Jobs scheduled for
    /// later, retries among them, are left. A paused queue does not hold it up.
    pub async fn drain(self) -> Result<Report, WorkerError> {
        self.build()?.drain().await
    }

    /// Runs until its queues are empty: like [`drain`](Self::drain), but waits for scheduled jobs too.
    pub async fn drain_scheduled(self) -> Result<Report, WorkerError> {
        self.build()?.drain_scheduled().await
    }
}

fn queue_slots(
    queues: Vec<(String, Guarantee, usize)>,
    prefetch: usize,
    batch_size: Option<usize>,
) -> Result<Vec<Arc<QueueSlots>>, BuildError> {
    if queues.is_empty() {
        return Err(BuildError::NoQueue);
    }
    let count = queues.len();
    let (mut seen, mut queue_slots) = (HashSet::new(), Vec::with_capacity(queues.len()));
    for (name, guarantee, concurrency) in queues {
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

/// What one of `parts` gets of `whole`: all get the same or, the first ones, one more; nobody gets nothing.
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
