//! The typed client: makes jobs and waits for their results.

mod bulk;
mod complete;
mod control;
mod enqueue;
mod handle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use bulk::BulkError;
pub use enqueue::{Enqueue, EnqueueBulk, PreparedJob};
pub use handle::{JobHandle, WaitError};

use crate::backoff::Backoff;
use crate::chain::IntoCompletion;
use crate::envelope::DEFAULT_MAX_ATTEMPTS;
use crate::limits::Limits;
use crate::name::Guarantee;
use crate::store::Store;
use crate::wake::CompletionWatch;
use crate::wake::completion::CompletionWaiters;

/// A kind of job: its payload type, its name, and how it is treated when a call does not say otherwise.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The envelope's `task_type`. Choose it once: it is on the wire.
    const KIND: &'static str;

    /// What its handler returns: anything that is JSON, or [`Next`](crate::Next) for a step of a chain.
    type Output: IntoCompletion;

    /// The queue it goes to.
    const QUEUE: &'static str = "default";

    /// The guarantee of that queue.
    const GUARANTEE: Guarantee = Guarantee::AtLeastOnce;

    /// How often it is tried.
    const MAX_ATTEMPTS: u32 = DEFAULT_MAX_ATTEMPTS;

    /// How long one attempt may take.
    const TIMEOUT: Option<Duration> = None;

    /// How long it waits between attempts.
    const BACKOFF: Backoff = Backoff::DEFAULT;

    /// How long the output is kept for [`JobHandle::wait`]. A job without an output leaves nothing behind; one
    /// with an output keeps it for ten minutes.
    const KEEP_RESULT: Option<Duration> =
        if size_of::<Self::Output>() == 0 { None } else { Some(Duration::from_secs(600)) };
}

/// A connection to a store: cheap to clone, shared by everything that makes or runs jobs.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    limits: Limits,
    source: Arc<str>,
    /// Where those wait who wait for an end: one for all clones, so that they listen once.
    completions: Arc<CompletionWaiters>,
}

impl AsRef<Client> for Client {
    fn as_ref(&self) -> &Client {
        self
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mill").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let listened = store.clone();
        let completions = CompletionWaiters::new(move || listened.subscribe());
        Self { store, limits: Limits::default(), source: "tidemill".into(), completions }
    }

    /// Sets the limits on what may be enqueued.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the name under which this program's jobs are made: the envelope's `meta.source`.
    pub fn source(mut self, source: &str) -> Self {
        self.source = source.into();
        self
    }

    /// The largest payload there may be.
    pub fn payload_limit(&self) -> usize {
        self.limits.payload
    }

    /// The store behind this client.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Prepares one job.
    ///
    /// A step of a [`Chain`](crate::Chain) starts that chain, and the handle waits for the chain's output.
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

    /// Prepares a job whose kind is known only at run time. The output is whatever JSON its handler returns.
    pub fn untyped(&self, kind: &str, payload: Box<RawValue>) -> Enqueue<Box<RawValue>> {
        Enqueue::untyped(self.clone(), kind, payload)
    }

    /// A handle to a job made elsewhere.
    pub fn handle<O: DeserializeOwned>(&self, job: crate::JobId) -> JobHandle<O> {
        JobHandle::new(self.clone(), job, true)
    }

    /// Watches for the end of a job, or of anything else whose end is announced under a job's id, such as a run. The store
    /// is listened to from now on: make it before the first look.
    pub fn watch(&self, job: &crate::JobId) -> CompletionWatch {
        CompletionWatch::new(self.store.clone(), &self.completions, job)
    }
    /// The same, if anybody has waited for an end here before: then the store is listened to by this process anyway, and
    /// a watch that may turn out to be of no use costs it nothing.
    pub fn watch_if_listening(&self, job: &crate::JobId) -> Option<CompletionWatch> {
        self.completions.is_used().then(|| self.watch(job))
    }
}
