//! The typed client: enqueues jobs and waits for their results.

mod bulk;
mod complete;
mod control;
mod dead_letters;
mod enqueue;
mod fleet;
mod handle;
mod operations;
mod queue;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use bulk::BulkError;
pub use dead_letters::DeadLetters;
pub use enqueue::{Enqueue, EnqueueBulk, PreparedJob};
pub use fleet::FleetHandle;
pub use handle::{JobHandle, WaitError};
pub use queue::{PageParams, Purged, QueueHandle};

use crate::backoff::Backoff;
use crate::chain::IntoCompletion;
use crate::envelope::DEFAULT_MAX_ATTEMPTS;
use crate::limits::Limits;
use crate::name::{Guarantee, JobId};
use crate::store::Store;
use crate::wake::CompletionWatch;

/// A type of job: its payload, its kind, and default options.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The envelope's `task_type`. It is stored with every job, so do not change it.
    const KIND: &'static str;

    /// The handler's result: any JSON value, or [`Next`](crate::Next) for a step of a chain.
    type Output: IntoCompletion;

    /// The queue.
    const QUEUE: &'static str = "default";

    /// The guarantee of the queue.
    const GUARANTEE: Guarantee = Guarantee::AtLeastOnce;

    /// The number of attempts.
    const MAX_ATTEMPTS: u32 = DEFAULT_MAX_ATTEMPTS;

    /// The longest duration of one attempt.
    const TIMEOUT: Option<Duration> = None;

    /// The delays between attempts.
    const BACKOFF: Backoff = Backoff::DEFAULT;

    /// How long the output is kept for [`JobHandle::wait`]. By default ten minutes, or not at all
    /// if the output has no size.
    const KEEP_RESULT: Option<Duration> =
        if size_of::<Self::Output>() == 0 { None } else { Some(Duration::from_secs(600)) };
}

/// A client of a store: cheap to clone and shared by all tasks that enqueue or run jobs.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    limits: Limits,
    source: Arc<str>,
}

impl AsRef<Client> for Client {
    fn as_ref(&self) -> &Client {
        self
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, limits: Limits::default(), source: "tidemill".into() }
    }

    /// Sets the limits on input.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the name of this program, which is the envelope's `meta.source`.
    pub fn source(mut self, source: &str) -> Self {
        self.source = source.into();
        self
    }

    /// The largest payload, in bytes.
    pub fn payload_limit(&self) -> usize {
        self.limits.payload
    }

    /// The store behind this client.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Prepares one job.
    ///
    /// A step of a [`Chain`](crate::Chain) starts that chain, and the handle waits for the chain's
    /// output.
    pub fn job<J: Job>(&self, job: J) -> Enqueue<<J::Output as IntoCompletion>::Awaited> {
        Enqueue::typed(self.clone(), &job)
    }

    /// Prepares many jobs of one kind.
    pub fn jobs<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> EnqueueBulk<J> {
        EnqueueBulk::typed::<J>(self.clone(), jobs.into_iter().collect())
    }

    /// Prepares many jobs of a kind that is known only at run time.
    pub fn untyped_jobs(&self, kind: &str, payloads: Vec<Box<RawValue>>) -> EnqueueBulk<Box<RawValue>> {
        EnqueueBulk::untyped(self.clone(), kind, payloads)
    }

    /// Prepares a job whose kind is known only at run time. Its output is the JSON that the handler
    /// returns.
    pub fn untyped(&self, kind: &str, payload: Box<RawValue>) -> Enqueue<Box<RawValue>> {
        Enqueue::untyped(self.clone(), kind, payload)
    }

    /// A handle to a job of type `J` that was enqueued elsewhere, or to the chain that it starts.
    pub fn job_handle<J: Job>(&self, job: JobId) -> JobHandle<<J::Output as IntoCompletion>::Awaited> {
        JobHandle::new(self.clone(), job, true).existing()
    }

    /// A handle to a job whose kind is known only at run time. Its output is raw JSON.
    pub fn untyped_job_handle(&self, job: JobId) -> JobHandle<Box<RawValue>> {
        JobHandle::new(self.clone(), job, true).existing()
    }

    /// Watches for the end of a job, or of a run, whose end is announced with the id of its task.
    /// The subscription begins with this call: make it before the first read of the job.
    pub fn watch(&self, job: &JobId) -> CompletionWatch {
        CompletionWatch::new(self.store.clone(), job)
    }

    /// Like [`watch`](Self::watch), but only if something in this process waits for the end of a job
    /// or has waited. Then an additional watch that may not be needed costs nothing.
    pub fn watch_if_listening(&self, job: &JobId) -> Option<CompletionWatch> {
        CompletionWatch::is_used(&*self.store).then(|| self.watch(job))
    }
}
