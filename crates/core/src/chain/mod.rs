//! Chains: jobs that continue with further jobs, and jobs that wait for chains.
//!
//! A chain has the id of its first job. It closes when one of its jobs ends without continuing. To
//! a store a chain is *one job that changes*: continuing replaces the envelope and the queue and
//! increments the step. So a chain has one state, like any job, and its record is that of the last
//! step.

mod blocker;
mod continuation;
mod dedup;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use blocker::check_blockers;
pub use blocker::{Blocker, with_blockers};
pub use continuation::Continuation;
pub use dedup::{Dedup, DedupScope};

use crate::client::{Job, JobHandle};
use crate::clock::Timestamp;
use crate::name::{JobId, Queue, QueueName};
use crate::store::{Due, Error};

/// A sequence of jobs with one result. Its steps are the job kinds whose [`Job::Output`] is
/// [`Next`] of this chain; the compiler lets a step continue with these only.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use tidemill_core::{Job, chain::{Chain, Next}};
/// struct Checkout;
/// impl Chain for Checkout { type Output = String; }
///
/// #[derive(Serialize, Deserialize)]
/// struct Reserve { order: u64 }
/// impl Job for Reserve { const KIND: &'static str = "reserve"; type Output = Next<Checkout>; }
///
/// #[derive(Serialize, Deserialize)]
/// struct Ship { order: u64 }
/// impl Job for Ship { const KIND: &'static str = "ship"; type Output = Next<Checkout>; }
///
/// async fn reserve(job: Reserve) -> Result<Next<Checkout>, std::io::Error> {
///     Ok(Next::job(Ship { order: job.order }))
/// }
/// async fn ship(job: Ship) -> Result<Next<Checkout>, std::io::Error> {
///     Ok(Next::done(format!("order {} is on its way", job.order)))
/// }
/// ```
pub trait Chain: 'static {
    /// The output of the chain's last job, which callers that wait for the chain receive.
    type Output: Serialize + DeserializeOwned + Send + 'static;
}

/// A value that a handler may return: an output, or the next job of the chain.
pub trait IntoCompletion: Send + 'static {
    /// The type that callers waiting for the job receive: the output, or that of the chain.
    type Awaited: DeserializeOwned + Send + 'static;

    /// Converts the value. If `kept` is false, the output is not stored and need not be serialised.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the value cannot be serialised or the next job is not valid.
    fn into_completion(self, kept: bool) -> Result<Completion, Error>;
}

/// How a job ended without failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// With this output, as JSON.
    Output(Bytes),
    /// By continuing with this job.
    Continue(Box<Continuation>),
}

impl<T: Serialize + DeserializeOwned + Send + 'static> IntoCompletion for T {
    type Awaited = T;

    fn into_completion(self, kept: bool) -> Result<Completion, Error> {
        Ok(Completion::Output(if kept { json(&self, "output")? } else { Bytes::new() }))
    }
}

impl<C: Chain> IntoCompletion for Next<C> {
    type Awaited = C::Output;

    fn into_completion(self, _kept: bool) -> Result<Completion, Error> {
        self.completion
    }
}

/// What a step of the chain `C` returns: the next job, or the chain's output.
#[must_use]
pub struct Next<C: Chain> {
    completion: Result<Completion, Error>,
    chain: PhantomData<fn() -> C>,
}

impl<C: Chain> fmt::Debug for Next<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Next").field(&self.completion).finish()
    }
}

impl<C: Chain> Next<C> {
    /// Continues with `job`.
    pub fn job<J: Job<Output = Self>>(job: J) -> Self {
        Self::from_completion(Continuation::typed(&job).map(|next| Completion::Continue(Box::new(next))))
    }

    /// Closes the chain with this output.
    pub fn done(output: C::Output) -> Self {
        Self::from_completion(json(&output, "output").map(Completion::Output))
    }

    fn from_completion(completion: Result<Completion, Error>) -> Self {
        Self { completion, chain: PhantomData }
    }

    /// Sets the queue of the next job.
    pub fn queue(self, queue: &str) -> Self {
        self.change(|next| {
            next.queue = Queue::at_least_once(QueueName::new(queue)?);
            Ok(())
        })
    }

    /// Delays the next job by this long.
    pub fn delay(self, delay: Duration) -> Self {
        self.change(|next| {
            next.due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
            Ok(())
        })
    }

    /// Runs the next job at this time or later.
    pub fn at(self, time: Timestamp) -> Self {
        self.change(|next| {
            next.due = Due::At(time);
            Ok(())
        })
    }

    /// Runs the next job when this chain has closed; its handler can read the output. May be called
    /// several times.
    pub fn after<O>(self, chain: &JobHandle<O>) -> Self {
        self.change(|next| {
            next.after.push(chain.id().chain());
            Ok(())
        })
    }

    /// Changes the next job; does nothing if the chain closes.
    fn change(mut self, change: impl FnOnce(&mut Continuation) -> Result<(), Error>) -> Self {
        if let Ok(Completion::Continue(next)) = &mut self.completion
            && let Err(error) = change(next)
        {
            self.completion = Err(error);
        }
        self
    }
}

/// The relations of a new job to chains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobLinks {
    /// The chains it waits for, in the order in which it will see their outputs. Without
    /// repetition.
    pub after: Vec<JobId>,
    /// Prevents a second chain with the same key.
    pub dedup: Option<Dedup>,
}

impl JobLinks {
    /// Whether there are none, as for most jobs.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty() && self.dedup.is_none()
    }
}

fn json(value: &impl Serialize, field: &str) -> Result<Bytes, Error> {
    let json = serde_json::to_vec(value);
    json.map(Bytes::from).map_err(|error| Error::Invalid(format!("the {field} is not JSON: {error}")))
}
