//! Chains: jobs that continue one another, and jobs that wait for chains.
//!
//! A chain has the id of its first job and is closed when one of its jobs ends without continuing. To a store a
//! chain is *one job that changes*: continuing replaces the envelope and the queue and counts the step, so that a
//! chain is in one place only, as every job is, and its record is the last step's.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::{Job, JobHandle};
use crate::clock::Timestamp;
use crate::job::JobState;
use crate::limits::{MAX_BLOCKERS, MAX_DELAY, check_duration};
use crate::name::{Guarantee, JobId, Kind, Queue, QueueName};
use crate::store::{Due, Error, JobRecord};

/// A line of jobs with one result. Its steps are the kinds whose [`Job::Output`] is [`Next`] of this chain; the
/// compiler lets a step continue with these only.
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
    /// What the last job of the chain returns, and whoever awaits the chain gets.
    type Output: Serialize + DeserializeOwned + Send + 'static;
}

/// What a job's handler may return: an output, or what the job continues with.
pub trait IntoCompletion: Send + 'static {
    /// What whoever waits for the job gets: the output itself, or that of the chain.
    type Awaited: DeserializeOwned + Send + 'static;

    /// How the job ends. With `kept` false nobody will ask for an output, and it need not be written down.
    fn into_completion(self, kept: bool) -> Result<Completion, Error>;
}

/// How a job ends that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// With this output (JSON).
    Output(Bytes),
    /// By continuing.
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
        self.end
    }
}

/// What a step of the chain `C` returns: the job it continues with, or the chain's output.
#[must_use]
pub struct Next<C: Chain> {
    end: Result<Completion, Error>,
    chain: PhantomData<fn() -> C>,
}

impl<C: Chain> fmt::Debug for Next<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Next").field(&self.end).finish()
    }
}

impl<C: Chain> Next<C> {
    /// Continues with `job`.
    pub fn job<J: Job<Output = Self>>(job: J) -> Self {
        Self::from_completion(Continuation::typed(&job).map(|next| Completion::Continue(Box::new(next))))
    }

    /// Closes the chain.
    pub fn done(output: C::Output) -> Self {
        Self::from_completion(json(&output, "output").map(Completion::Output))
    }

    fn from_completion(end: Result<Completion, Error>) -> Self {
        Self { end, chain: PhantomData }
    }

    /// Sends the next job to this queue.
    pub fn queue(self, queue: &str) -> Self {
        self.change(|next| {
            next.queue = Queue::at_least_once(QueueName::new(queue)?);
            Ok(())
        })
    }

    /// Runs the next job no earlier than after this long.
    pub fn delay(self, delay: Duration) -> Self {
        self.change(|next| {
            next.due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
            Ok(())
        })
    }

    /// Runs the next job no earlier than at this time.
    pub fn at(self, time: Timestamp) -> Self {
        self.change(|next| {
            next.due = Due::At(time);
            Ok(())
        })
    }

    /// Runs the next job only when this chain has closed; it sees its output. May be called several times.
    pub fn after<O>(self, chain: &JobHandle<O>) -> Self {
        self.change(|next| {
            next.after.push(chain.id().chain());
            Ok(())
        })
    }

    /// Changes what the chain continues with. What closes the chain stays as it is.
    fn change(mut self, change: impl FnOnce(&mut Continuation) -> Result<(), Error>) -> Self {
        if let Ok(Completion::Continue(next)) = &mut self.end
            && let Err(error) = change(next)
        {
            self.end = Err(error);
        }
        self
    }
}

/// The job that another continues with, before it has an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// What it does.
    pub kind: Kind,
    /// Where it goes. At least once: a chain must not get lost.
    pub queue: Queue,
    /// When it may run.
    pub due: Due,
    /// Its payload (JSON).
    pub payload: Bytes,
    /// How often it is tried.
    pub max_attempts: u32,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// The chains it waits for.
    pub after: Vec<JobId>,
}

impl Continuation {
    /// Continues with a job whose kind is known only at run time.
    pub fn untyped(kind: Kind, queue: QueueName, payload: &RawValue) -> Self {
        Self {
            kind,
            queue: Queue::at_least_once(queue),
            due: Due::Now,
            payload: Bytes::copy_from_slice(payload.get().as_bytes()),
            max_attempts: crate::envelope::DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            after: Vec::new(),
        }
    }

    fn typed<J: Job>(job: &J) -> Result<Self, Error> {
        Ok(Self {
            kind: Kind::new(J::KIND)?,
            queue: Queue { name: QueueName::new(J::QUEUE)?, guarantee: J::GUARANTEE },
            due: Due::Now,
            payload: json(job, "payload")?,
            max_attempts: J::MAX_ATTEMPTS,
            timeout: J::TIMEOUT,
            after: Vec::new(),
        })
    }

    /// Whether it may be enqueued, with payloads of at most `limit` bytes.
    pub fn check(&self, limit: usize) -> Result<(), Error> {
        let size = self.payload.len();
        if size > limit {
            return Err(Error::Invalid(format!("the payload has {size} bytes; at most {limit} are allowed")));
        }
        if self.queue.guarantee != Guarantee::AtLeastOnce {
            let queue = &self.queue.name;
            return Err(Error::Invalid(format!(
                "a chain cannot continue on the at-most-once queue `{queue}`"
            )));
        }
        if self.max_attempts == 0 {
            return Err(Error::Invalid("max_attempts must be at least 1".into()));
        }
        if matches!(self.due, Due::In(delay) if delay > MAX_DELAY) {
            return Err(Error::Invalid("a job cannot be scheduled more than 100 years ahead".into()));
        }
        check_duration("the timeout", self.timeout.unwrap_or_default())?;
        check_blockers(&self.after)
    }
}

/// How a new job is tied to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobLinks {
    /// The chains it waits for, in the order in which it will see their outputs. Without repetition.
    pub after: Vec<JobId>,
    /// Keeps a second one like it from being made.
    pub dedup: Option<Dedup>,
}

impl JobLinks {
    /// Whether there are none: most jobs stand alone.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty() && self.dedup.is_none()
    }
}

/// Which earlier chain with the same key takes the place of a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// What makes two chains the same.
    pub key: String,
    /// Whether a closed one counts.
    pub scope: DedupScope,
    /// Only one that was started within this long counts.
    pub within: Option<Duration>,
}

/// Whether a closed chain keeps another from being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupScope {
    /// Only one that is still open does.
    Open,
    /// A closed one does too, as long as its record is kept.
    Any,
}

impl Dedup {
    /// A chain that is still open takes the place of a new one.
    pub fn open(key: impl Into<String>) -> Self {
        Self { key: key.into(), scope: DedupScope::Open, within: None }
    }

    /// Any chain whose record is kept takes the place of a new one.
    pub fn any(key: impl Into<String>) -> Self {
        Self { key: key.into(), scope: DedupScope::Any, within: None }
    }

    /// Only if it was started within this long.
    pub fn within(self, window: Duration) -> Self {
        Self { within: Some(window), ..self }
    }

    /// Keys are stored as they are, so they are held to a size.
    pub fn check(&self) -> Result<(), Error> {
        if (1..=256).contains(&self.key.len()) && !self.key.contains('\0') {
            return check_duration("the window of a deduplication key", self.within.unwrap_or_default());
        }
        Err(Error::Invalid("a deduplication key has 1 to 256 bytes and no zero byte".into()))
    }
}

/// How a chain ended, as a job that waited for it sees it.
#[derive(Debug, Clone, Deserialize)]
pub struct Blocker {
    /// Which chain.
    #[serde(deserialize_with = "job_id")]
    pub chain: JobId,
    /// Whether it ended well; one that was cancelled has no output.
    pub state: JobState,
    /// Its output; `null` if there is none.
    pub output: Box<RawValue>,
}

impl Blocker {
    /// What a job that waited for the chain is told: a JSON object, to be put into its envelope.
    pub fn notice(record: &JobRecord) -> Bytes {
        let output: &[u8] = if record.output.is_empty() { b"null" } else { &record.output };
        blocker_json(&record.job, record.state, output)
    }

    /// What a job is told whose chain was removed.
    pub fn removed_notice(chain: &JobId) -> Bytes {
        blocker_json(chain, JobState::Cancelled, b"null")
    }
}

fn blocker_json(chain: &JobId, state: JobState, output: &[u8]) -> Bytes {
    let chain = serde_json::to_string(chain).unwrap_or_default();
    let mut told = format!(r#"{{"chain":{chain},"state":"{state}","output":"#).into_bytes();
    told.extend_from_slice(output);
    told.push(b'}');
    told.into()
}

/// Puts what a job was told into its envelope, when the last chain it waited for has closed: before the last
/// brace, as `"blockers":[…]`. Stores do the same where the bytes are.
pub fn with_blockers<'a>(envelope: &[u8], told: impl IntoIterator<Item = &'a [u8]>) -> Bytes {
    let mut out = envelope.trim_ascii_end().to_vec();
    out.pop();
    out.extend_from_slice(br#","blockers":["#);
    for (index, told) in told.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(told);
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// Whether a job may wait for so many chains.
pub(crate) fn check_blockers(after: &[JobId]) -> Result<(), Error> {
    if after.len() <= MAX_BLOCKERS {
        return Ok(());
    }
    Err(Error::Invalid(format!("a job can wait for at most {MAX_BLOCKERS} chains")))
}

fn json(value: &impl Serialize, what: &str) -> Result<Bytes, Error> {
    let json = serde_json::to_vec(value);
    json.map(Bytes::from).map_err(|error| Error::Invalid(format!("the {what} is not JSON: {error}")))
}

fn job_id<'de, D: serde::Deserializer<'de>>(from: D) -> Result<JobId, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
    JobId::new(&text).map_err(serde::de::Error::custom)
}
