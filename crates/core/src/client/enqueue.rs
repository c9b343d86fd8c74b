//! Builders for one job or many. All checks are made before the first write.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::bulk::{self, BulkError};
use super::{Client, Job, JobHandle};
use crate::backoff::Backoff;
use crate::chain::{Dedup, IntoCompletion, JobLinks, check_blockers};
use crate::clock::Timestamp;
use crate::envelope::{DEFAULT_KEEP, DEFAULT_MAX_ATTEMPTS, EnvelopeTemplate, JobOptions, Meta};
use crate::limits::{MAX_BATCH_BYTES, MAX_BATCH_JOBS, MAX_DELAY, check_duration};
use crate::name::{Guarantee, JobId, Kind, Queue, QueueName};
use crate::settle::distinct;
use crate::store::reserved_ids;
use crate::store::{self, Due, Enqueued, Error, NewJob};

/// The default number of jobs per batch of a bulk; larger batches are not faster.
const BULK_BATCH_JOBS: usize = 250;

/// The options of one job or of a bulk.
#[derive(Debug, Clone)]
struct EnqueueOptions {
    kind: String,
    queue: String,
    guarantee: Guarantee,
    due: Due,
    max_attempts: u32,
    timeout: Option<Duration>,
    keep_result: Option<Duration>,
    backoff: Option<Backoff>,
    correlation_id: Option<String>,
    user_id: Option<String>,
    tracked: Option<bool>,
}

impl EnqueueOptions {
    fn new<J: Job>() -> Self {
        Self {
            queue: J::QUEUE.to_owned(),
            guarantee: J::GUARANTEE,
            max_attempts: J::MAX_ATTEMPTS,
            timeout: J::TIMEOUT,
            keep_result: J::KEEP_RESULT,
            ..Self::named(J::KIND)
        }
    }

    fn named(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            queue: "default".to_owned(),
            guarantee: Guarantee::AtLeastOnce,
            due: Due::Now,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            keep_result: None,
            backoff: None,
            correlation_id: None,
            user_id: None,
            tracked: None,
        }
    }

    /// Checks everything but the payloads.
    fn check(&self, now: Timestamp) -> Result<(Queue, Kind), Error> {
        let is_too_late = match self.due {
            Due::Now => false,
            Due::In(delay) => delay > MAX_DELAY,
            Due::At(time) => now.until(time) > MAX_DELAY,
        };
        if is_too_late {
            return Err(Error::Invalid("a job cannot be scheduled more than 100 years ahead".into()));
        }
        if self.max_attempts == 0 {
            return Err(Error::Invalid("max_attempts must be at least 1".into()));
        }
        check_duration("the timeout", self.timeout.unwrap_or_default())?;
        check_duration("the time for which a result is kept", self.keep_result.unwrap_or_default())?;
        if let Some(Backoff { base, max, jitter }) = self.backoff {
            [base, max, jitter].into_iter().try_for_each(|delay| check_duration("the backoff", delay))?;
        }
        let queue = Queue { name: QueueName::new(&self.queue)?, guarantee: self.guarantee };
        Ok((queue, Kind::new(&self.kind)?))
    }

    /// Whether the jobs are tracked, so that they can be found by id while they wait. A job that is
    /// scheduled or keeps its result must be. For others, `default` applies unless the caller
    /// chose.
    fn tracked(&self, default: bool) -> bool {
        let must = self.keep_result.is_some() || self.due != Due::Now;
        must || self.tracked.unwrap_or(default)
    }

    fn template(&self, client: &Client, kind: &Kind, tracked: bool) -> EnvelopeTemplate {
        let meta = Meta {
            correlation_id: self.correlation_id.as_deref(),
            user_id: self.user_id.as_deref(),
            enqueue_ts: client.store.clock().now(),
            source: &client.source,
        };
        let Self { max_attempts, timeout, keep_result, backoff, .. } = *self;
        JobOptions { kind, max_attempts, timeout, keep_result, backoff, tracked, activity: None, meta }
            .template()
    }
}

/// Creates the envelope of one job.
fn fill(
    template: &EnvelopeTemplate,
    id: &JobId,
    payload: &(impl Serialize + ?Sized),
    limit: usize,
) -> Result<Bytes, Error> {
    let not_json = |error| Error::Invalid(format!("the payload is not JSON: {error}"));
    let (envelope, size) = template.fill(id, payload).map_err(not_json)?;
    Error::check_size("the payload", size, limit)?;
    Ok(envelope)
}

macro_rules! option_setters {
    () => {
        /// Sets the queue.
        pub fn queue(mut self, queue: &str) -> Self {
            self.options.queue = queue.to_owned();
            self
        }

        /// Sets the guarantee of the queue.
        pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
            self.options.guarantee = guarantee;
            self
        }

        /// Runs it after this delay.
        pub fn delay(mut self, delay: Duration) -> Self {
            self.options.due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
            self
        }

        /// Runs it at this time or later; at once if the time has passed.
        pub fn at(mut self, time: Timestamp) -> Self {
            self.options.due = Due::At(time);
            self
        }

        /// Sets the number of attempts.
        pub fn max_attempts(mut self, attempts: u32) -> Self {
            self.options.max_attempts = attempts;
            self
        }

        /// Sets the delays between attempts, instead of [`Job::BACKOFF`]. They are part of the
        /// envelope.
        pub fn backoff(mut self, backoff: Backoff) -> Self {
            self.options.backoff = Some(backoff);
            self
        }

        /// Sets the longest duration of one attempt.
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// Keeps the result this long for callers that wait for it.
        pub fn keep_result(mut self, keep: Duration) -> Self {
            self.options.keep_result = Some(keep);
            self
        }

        /// Sets the correlation id, which is common to all jobs of a request.
        pub fn correlation_id(mut self, id: &str) -> Self {
            self.options.correlation_id = Some(id.to_owned());
            self
        }

        /// Sets whether the job can be found by its id while it waits, to be inspected or
        /// cancelled.
        ///
        /// By default single at-least-once jobs can. Jobs of a bulk and at-most-once jobs cannot,
        /// unless they have an id of your own, are delayed, or keep their result. The SQL stores
        /// find every job.
        pub fn tracked(mut self, tracked: bool) -> Self {
            self.options.tracked = Some(tracked);
            self
        }

        /// Sets the user on whose behalf it runs.
        pub fn user_id(mut self, id: &str) -> Self {
            self.options.user_id = Some(id.to_owned());
            self
        }
    };
}

/// One job, not yet enqueued.
#[must_use = "a job exists only after `.enqueue().await`"]
#[derive(Debug)]
pub struct Enqueue<O> {
    client: Client,
    options: EnqueueOptions,
    payload: Result<Box<RawValue>, serde_json::Error>,
    id: Option<String>,
    links: JobLinks,
    /// A chain in `after` that keeps no result, so that the job cannot wait for it.
    unkept: Option<JobId>,
    output: PhantomData<fn() -> O>,
}

/// A checked job with its envelope, to be added by the caller, for example in a transaction.
#[derive(Debug)]
pub struct PreparedJob<O> {
    /// Its queue.
    pub queue: Queue,
    /// The job.
    pub job: NewJob,
    client: Client,
    kept: bool,
    output: PhantomData<fn() -> O>,
}

impl<O: DeserializeOwned> PreparedJob<O> {
    /// The client that prepared it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A handle to the job, after it was added with this result.
    pub fn handle(self, result: &Enqueued) -> JobHandle<O> {
        let handle = |id| JobHandle::new(self.client.clone(), id, self.kept);
        match result {
            Enqueued::Created => handle(self.job.id),
            Enqueued::Exists => handle(self.job.id).existing(),
            Enqueued::Duplicate(other) => handle(other.clone()).existing(),
        }
    }
}

impl<O: DeserializeOwned> Enqueue<O> {
    pub(super) fn typed<J: Job>(client: Client, job: &J) -> Self
    where
        J::Output: IntoCompletion<Awaited = O>,
    {
        Self::new(client, EnqueueOptions::new::<J>(), serde_json::value::to_raw_value(job))
    }

    fn new(
        client: Client,
        options: EnqueueOptions,
        payload: Result<Box<RawValue>, serde_json::Error>,
    ) -> Self {
        Self {
            client,
            options,
            payload,
            id: None,
            links: JobLinks::default(),
            unkept: None,
            output: PhantomData,
        }
    }

    option_setters!();

    /// Sets the id. Enqueueing the id again while the job is in the store creates no second job.
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Runs the job when this chain has closed, done or cancelled; its handler can read the output.
    /// May be called several times.
    pub fn after<Other>(mut self, chain: &JobHandle<Other>) -> Self {
        if !chain.keeps_result() {
            self.unkept = Some(chain.id().clone());
        }
        self.links.after.push(chain.id().chain());
        self
    }

    /// Enqueues nothing if a chain with the same key exists; then the handle is that of the
    /// existing chain.
    pub fn dedup(mut self, dedup: Dedup) -> Self {
        self.links.dedup = Some(dedup);
        self
    }

    /// Enqueues the job. When this returns, the job is in the store and will run.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an option or the payload is not valid; otherwise the store's error.
    /// [`Error::Unanswered`] means that the job may have been enqueued.
    ///
    /// # Cancel safety
    /// A dropped call may have enqueued the job. With an [`id`](Self::id) or a [`dedup`](Self::dedup) key
    /// a second call creates no second job.
    pub async fn enqueue(self) -> Result<JobHandle<O>, Error> {
        let prepared = self.prepare()?;
        let (queue, jobs) = (&prepared.queue, std::slice::from_ref(&prepared.job));
        let result = prepared.client.store.enqueue(store::EnqueueParams { queue, jobs }).await?;
        Ok(prepared.handle(result.first().unwrap_or(&Enqueued::Created)))
    }

    /// Checks everything and creates the envelope, without enqueueing the job.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an option or the payload is not valid.
    pub fn prepare(mut self) -> Result<PreparedJob<O>, Error> {
        self.check_links()?;
        let (queue, kind) = self.options.check(self.client.store.clock().now())?;
        let payload =
            self.payload.map_err(|error| Error::Invalid(format!("the payload is not JSON: {error}")))?;
        let generated_id = self.id.is_none();
        let linked = !self.links.is_empty();
        let tracked =
            linked || !generated_id || self.options.tracked(queue.guarantee == Guarantee::AtLeastOnce);
        let id = self.id.map_or_else(|| Ok(JobId::generate()), |id| explicit_id(&id))?;
        let template = self.options.template(&self.client, &kind, tracked);
        let envelope = fill(&template, &id, &payload, self.client.limits.payload)?;
        let kept = self.options.keep_result.is_some();
        let job = NewJob { id, envelope, due: self.options.due, tracked, generated_id, links: self.links };
        Ok(PreparedJob { queue, job, client: self.client, kept, output: PhantomData })
    }

    /// Checks the links. A job with a deduplication key must keep its result, so that it can be
    /// found.
    fn check_links(&mut self) -> Result<(), Error> {
        if let Some(job) = &self.unkept {
            let why = "its result is not kept; enqueue it with `keep_result`";
            return Err(Error::Invalid(format!("nothing can wait for job {job}: {why}")));
        }
        self.links.after = distinct(&self.links.after);
        check_blockers(&self.links.after)?;
        if !self.links.is_empty() && self.options.guarantee == Guarantee::AtMostOnce {
            return Err(Error::Invalid(
                "an at-most-once job can neither wait for chains nor be deduplicated".into(),
            ));
        }
        let Some(dedup) = &self.links.dedup else { return Ok(()) };
        dedup.check()?;
        if self.id.is_some() {
            return Err(Error::Invalid("a job has an id of its own or a deduplication key, not both".into()));
        }
        self.options.keep_result.get_or_insert(DEFAULT_KEEP);
        Ok(())
    }
}

impl Enqueue<Box<RawValue>> {
    pub(super) fn untyped(client: Client, kind: &str, payload: Box<RawValue>) -> Self {
        Self::new(client, EnqueueOptions::named(kind), Ok(payload))
    }
}

/// Many jobs of one kind, not yet enqueued.
#[must_use = "jobs exist only after `.enqueue().await`"]
#[derive(Debug)]
pub struct EnqueueBulk<P> {
    client: Client,
    options: EnqueueOptions,
    payloads: Vec<P>,
    batch: usize,
}

impl<P: Serialize> EnqueueBulk<P> {
    pub(super) fn typed<J: Job>(client: Client, payloads: Vec<P>) -> Self {
        Self { client, options: EnqueueOptions::new::<J>(), payloads, batch: BULK_BATCH_JOBS }
    }

    pub(super) fn untyped(client: Client, kind: &str, payloads: Vec<P>) -> Self {
        Self { client, options: EnqueueOptions::named(kind), payloads, batch: BULK_BATCH_JOBS }
    }

    option_setters!();

    /// Sets the number of jobs per atomic batch: at most [`MAX_BATCH_JOBS`], and fewer if they
    /// exceed [`MAX_BATCH_BYTES`].
    pub fn batch(mut self, jobs: usize) -> Self {
        self.batch = jobs.clamp(1, MAX_BATCH_JOBS);
        self
    }

    /// Enqueues the jobs and returns their ids in order. All are checked before the first is
    /// written. They are written in batches, some of them concurrently. By default they are not
    /// [`tracked`](Self::tracked).
    ///
    /// # Errors
    /// After an error some jobs may exist; [`BulkError`] says which.
    ///
    /// # Cancel safety
    /// A dropped call may have enqueued some of the jobs.
    pub async fn enqueue(self) -> Result<Vec<JobId>, BulkError> {
        let (client, batch, count) = (self.client.clone(), self.batch, self.payloads.len());
        let (queue, jobs) = self.prepare().map_err(|error| BulkError::before_all(count, error))?;
        bulk::write(&*client.store, &queue, batches(&jobs, batch)).await?;
        Ok(jobs.into_iter().map(|job| job.id).collect())
    }

    /// The client that enqueues them.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Checks everything and creates the envelopes, without enqueueing the jobs.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an option or a payload is not valid.
    pub fn prepare(self) -> Result<(Queue, Vec<NewJob>), Error> {
        let (queue, kind) = self.options.check(self.client.store.clock().now())?;
        let (due, limit) = (self.options.due, self.client.limits.payload);
        let tracked = self.options.tracked(false);
        let template = self.options.template(&self.client, &kind, tracked);
        let job = |payload: &P| {
            let id = JobId::generate();
            let envelope = fill(&template, &id, payload, limit)?;
            Ok(NewJob { id, envelope, due, tracked, generated_id: true, links: JobLinks::default() })
        };
        Ok((queue, self.payloads.iter().map(job).collect::<Result<_, Error>>()?))
    }
}

/// Splits jobs into batches of at most `max_jobs` jobs and about `MAX_BATCH_BYTES` bytes. A single
/// job may be larger.
fn batches(jobs: &[NewJob], max_jobs: usize) -> Vec<&[NewJob]> {
    let (mut batches, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (position, job) in jobs.iter().enumerate() {
        let is_full = position - first == max_jobs || bytes + job.envelope.len() > MAX_BATCH_BYTES;
        if is_full && position > first {
            batches.push(&jobs[first..position]);
            (first, bytes) = (position, 0);
        }
        bytes += job.envelope.len();
    }
    if first < jobs.len() {
        batches.push(&jobs[first..]);
    }
    batches
}

/// Checks an id that the caller chose. Ids of later steps and of parts of runs are reserved.
fn explicit_id(text: &str) -> Result<JobId, Error> {
    let id = JobId::new(text)?;
    reserved_ids::check_explicit_id(&id)?;
    if id.step() > 0 || text.len() > JobId::MAX_CHAIN_LEN {
        let max_len = JobId::MAX_CHAIN_LEN;
        return Err(Error::Invalid(format!(
            "job id {text:?} is not valid: it has at most {max_len} characters and does not end in `~` and a number"
        )));
    }
    Ok(id)
}
