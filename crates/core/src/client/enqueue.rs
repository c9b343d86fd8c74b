//! From a typed job to one in a store: everything is checked before anything is written.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::bulk::{self, BulkError};
use super::{Client, Job, JobHandle};
use crate::chain::{Dedup, IntoCompletion, JobLinks, check_blockers};
use crate::clock::Timestamp;
use crate::envelope::{DEFAULT_KEEP, DEFAULT_MAX_ATTEMPTS, EnvelopeTemplate, JobOptions, Meta};
use crate::limits::{MAX_BATCH_BYTES, MAX_BATCH_JOBS, MAX_DELAY, check_duration};
use crate::name::{Guarantee, JobId, Kind, Queue, QueueName};
use crate::settle::distinct;
use crate::store::reserved_ids;
use crate::store::{self, Due, Enqueued, Error, NewJob};

/// How many jobs of a bulk one batch holds: beyond this, larger batches gain nothing.
const BULK_BATCH_JOBS: usize = 250;

/// How a job is to be treated; the same for one job and for many.
#[derive(Debug, Clone)]
struct EnqueueOptions {
    kind: String,
    queue: String,
    guarantee: Guarantee,
    due: Due,
    max_attempts: u32,
    timeout: Option<Duration>,
    keep_result: Option<Duration>,
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
            correlation_id: None,
            user_id: None,
            tracked: None,
        }
    }

    /// Checks everything but the payloads.
    fn check(&self, now: Timestamp) -> Result<(Queue, Kind), Error> {
        let late = match self.due {
            Due::Now => false,
            Due::In(delay) => delay > MAX_DELAY,
            Due::At(time) => now.until(time) > MAX_DELAY,
        };
        if late {
            return Err(Error::Invalid("a job cannot be scheduled more than 100 years ahead".into()));
        }
        if self.max_attempts == 0 {
            return Err(Error::Invalid("max_attempts must be at least 1".into()));
        }
        check_duration("the timeout", self.timeout.unwrap_or_default())?;
        check_duration("the time for which a result is kept", self.keep_result.unwrap_or_default())?;
        let queue = Queue { name: QueueName::new(&self.queue)?, guarantee: self.guarantee };
        Ok((queue, Kind::new(&self.kind)?))
    }

    /// Whether jobs can be found by their ids while they wait. What nobody was told the id of, or what may get
    /// lost anyway, is not worth an index entry; what is due later or keeps its result has to be found.
    fn tracked(&self, worth_it: bool) -> bool {
        let must = self.keep_result.is_some() || self.due != Due::Now;
        must || self.tracked.unwrap_or(worth_it)
    }

    fn template(&self, client: &Client, kind: &Kind, tracked: bool) -> EnvelopeTemplate {
        let meta = Meta {
            correlation_id: self.correlation_id.as_deref(),
            user_id: self.user_id.as_deref(),
            enqueue_ts: client.store.clock().now(),
            source: &client.source,
        };
        let Self { max_attempts, timeout, keep_result, .. } = *self;
        JobOptions { kind, max_attempts, timeout, keep_result, tracked, activity: None, meta }.template()
    }
}

/// Writes one job's envelope, if its payload is JSON of an allowed size.
fn fill(
    frame: &EnvelopeTemplate,
    id: &JobId,
    payload: &(impl Serialize + ?Sized),
    limit: usize,
) -> Result<Bytes, Error> {
    let not_json = |error| Error::Invalid(format!("the payload is not JSON: {error}"));
    let (envelope, size) = frame.fill(id, payload).map_err(not_json)?;
    if size > limit {
        return Err(Error::Invalid(format!("the payload has {size} bytes; at most {limit} are allowed")));
    }
    Ok(envelope)
}

macro_rules! plan_setters {
    () => {
        /// Sends it to this queue.
        pub fn queue(mut self, queue: &str) -> Self {
            self.plan.queue = queue.to_owned();
            self
        }

        /// Says which guarantee the queue has.
        pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
            self.plan.guarantee = guarantee;
            self
        }

        /// Runs it no earlier than after this long.
        pub fn delay(mut self, delay: Duration) -> Self {
            self.plan.due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
            self
        }

        /// Runs it no earlier than at this time; at once if it is past.
        pub fn at(mut self, time: Timestamp) -> Self {
            self.plan.due = Due::At(time);
            self
        }

        /// Tries it at most this often.
        pub fn max_attempts(mut self, attempts: u32) -> Self {
            self.plan.max_attempts = attempts;
            self
        }

        /// Gives each attempt this long.
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.plan.timeout = Some(timeout);
            self
        }

        /// Keeps the result this long for whoever waits for it.
        pub fn keep_result(mut self, keep: Duration) -> Self {
            self.plan.keep_result = Some(keep);
            self
        }

        /// Ties it to what belongs to the same request.
        pub fn correlation_id(mut self, id: &str) -> Self {
            self.plan.correlation_id = Some(id.to_owned());
            self
        }

        /// Says whether the job can be found by its id while it waits, to be shown or cancelled. By default a
        /// single at-least-once job can, and one that is made in bulk or delivered at most once cannot, unless
        /// it has an id of your own, is delayed, or keeps its result. The SQL stores find every job.
        pub fn tracked(mut self, tracked: bool) -> Self {
            self.plan.tracked = Some(tracked);
            self
        }

        /// Says on whose behalf it runs.
        pub fn user_id(mut self, id: &str) -> Self {
            self.plan.user_id = Some(id.to_owned());
            self
        }
    };
}

/// One job, not yet enqueued.
#[must_use = "a job exists only after `.enqueue().await`"]
#[derive(Debug)]
pub struct Enqueue<O> {
    client: Client,
    plan: EnqueueOptions,
    payload: Result<Box<RawValue>, serde_json::Error>,
    id: Option<String>,
    links: JobLinks,
    /// Something it was to wait for cannot be waited for.
    unkept: Option<JobId>,
    output: PhantomData<fn() -> O>,
}

/// A job that is checked and has its envelope, ready to be added wherever its maker wants: in a transaction.
#[derive(Debug)]
pub struct PreparedJob<O> {
    /// Where it goes.
    pub queue: Queue,
    /// The job.
    pub job: NewJob,
    client: Client,
    kept: bool,
    output: PhantomData<fn() -> O>,
}

impl<O: DeserializeOwned> PreparedJob<O> {
    /// The client that makes it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A handle to the job, once it was added.
    pub fn handle(self, made: &Enqueued) -> JobHandle<O> {
        let handle = |id| JobHandle::new(self.client.clone(), id, self.kept);
        match made {
            Enqueued::Created => handle(self.job.id),
            Enqueued::Exists => handle(self.job.id).of_existing(),
            Enqueued::Duplicate(other) => handle(other.clone()).of_existing(),
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

    fn new(client: Client, plan: EnqueueOptions, payload: Result<Box<RawValue>, serde_json::Error>) -> Self {
        Self {
            client,
            plan,
            payload,
            id: None,
            links: JobLinks::default(),
            unkept: None,
            output: PhantomData,
        }
    }

    plan_setters!();

    /// Gives the job this id: enqueueing it again while it is in the store makes no second job.
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Runs the job only when this chain has closed, done or cancelled; the handler sees its output. May be
    /// called several times.
    pub fn after<Other>(mut self, chain: &JobHandle<Other>) -> Self {
        if !chain.keeps_result() {
            self.unkept = Some(chain.id().clone());
        }
        self.links.after.push(chain.id().chain());
        self
    }

    /// Makes no second chain like this one: if there is one with the same key, its handle is returned instead.
    pub fn dedup(mut self, dedup: Dedup) -> Self {
        self.links.dedup = Some(dedup);
        self
    }

    /// Makes the job. When this returns, it will run.
    pub async fn enqueue(self) -> Result<JobHandle<O>, Error> {
        let prepared = self.prepare()?;
        let (queue, jobs) = (&prepared.queue, std::slice::from_ref(&prepared.job));
        let made = prepared.client.store.enqueue(store::EnqueueParams { queue, jobs }).await?;
        Ok(prepared.handle(made.first().unwrap_or(&Enqueued::Created)))
    }

    /// Checks everything and writes the envelope, without making the job yet.
    pub fn prepare(mut self) -> Result<PreparedJob<O>, Error> {
        self.check_links()?;
        let (queue, kind) = self.plan.check(self.client.store.clock().now())?;
        let payload =
            self.payload.map_err(|error| Error::Invalid(format!("the payload is not JSON: {error}")))?;
        let fresh = self.id.is_none();
        let linked = !self.links.is_empty();
        let tracked = linked || !fresh || self.plan.tracked(queue.guarantee == Guarantee::AtLeastOnce);
        let id = self.id.map_or_else(|| Ok(JobId::generate()), |id| explicit_id(&id))?;
        let frame = self.plan.template(&self.client, &kind, tracked);
        let envelope = fill(&frame, &id, &payload, self.client.limits.payload)?;
        let kept = self.plan.keep_result.is_some();
        let job =
            NewJob { id, envelope, due: self.plan.due, tracked, generated_id: fresh, links: self.links };
        Ok(PreparedJob { queue, job, client: self.client, kept, output: PhantomData })
    }

    /// Checks how the job is tied to others. What is found again by its key must have something to be found.
    fn check_links(&mut self) -> Result<(), Error> {
        if let Some(job) = &self.unkept {
            let why = "its result is not kept; enqueue it with `keep_result`";
            return Err(Error::Invalid(format!("nothing can wait for job {job}: {why}")));
        }
        self.links.after = distinct(&self.links.after);
        check_blockers(&self.links.after)?;
        if !self.links.is_empty() && self.plan.guarantee == Guarantee::AtMostOnce {
            return Err(Error::Invalid(
                "an at-most-once job can neither wait for chains nor be deduplicated".into(),
            ));
        }
        let Some(dedup) = &self.links.dedup else { return Ok(()) };
        dedup.check()?;
        if self.id.is_some() {
            return Err(Error::Invalid("a job has an id of its own or a deduplication key, not both".into()));
        }
        self.plan.keep_result.get_or_insert(DEFAULT_KEEP);
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
    plan: EnqueueOptions,
    payloads: Vec<P>,
    batch: usize,
}

impl<P: Serialize> EnqueueBulk<P> {
    pub(super) fn typed<J: Job>(client: Client, payloads: Vec<P>) -> Self {
        Self { client, plan: EnqueueOptions::new::<J>(), payloads, batch: BULK_BATCH_JOBS }
    }

    pub(super) fn untyped(client: Client, kind: &str, payloads: Vec<P>) -> Self {
        Self { client, plan: EnqueueOptions::named(kind), payloads, batch: BULK_BATCH_JOBS }
    }

    plan_setters!();

    /// Writes this many jobs in one atomic batch; at most [`MAX_BATCH_JOBS`], and fewer if they come to more than
    /// [`MAX_BATCH_BYTES`].
    pub fn batch(mut self, jobs: usize) -> Self {
        self.batch = jobs.clamp(1, MAX_BATCH_JOBS);
        self
    }

    /// Makes the jobs and returns their ids in order. All are checked before the first is written. They are
    /// written in batches, some at a time. By default they are not [`tracked`](Self::tracked).
    ///
    /// # Errors
    /// Some jobs may be there after an error: [`BulkError`] says which.
    pub async fn enqueue(self) -> Result<Vec<JobId>, BulkError> {
        let (client, batch, count) = (self.client.clone(), self.batch, self.payloads.len());
        let (queue, jobs) = self.prepare().map_err(|error| BulkError::before_all(count, error))?;
        bulk::write(&*client.store, &queue, batches(&jobs, batch)).await?;
        Ok(jobs.into_iter().map(|job| job.id).collect())
    }

    /// The client that makes them.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Checks everything and writes the envelopes, without making the jobs yet.
    pub fn prepare(self) -> Result<(Queue, Vec<NewJob>), Error> {
        let (queue, kind) = self.plan.check(self.client.store.clock().now())?;
        let (due, limit) = (self.plan.due, self.client.limits.payload);
        let tracked = self.plan.tracked(false);
        let frame = self.plan.template(&self.client, &kind, tracked);
        let job = |payload: &P| {
            let id = JobId::generate();
            let envelope = fill(&frame, &id, payload, limit)?;
            Ok(NewJob { id, envelope, due, tracked, generated_id: true, links: JobLinks::default() })
        };
        Ok((queue, self.payloads.iter().map(job).collect::<Result<_, Error>>()?))
    }
}

/// Splits jobs into batches of at most `most` jobs and about `MAX_BATCH_BYTES` bytes, or one job however large.
fn batches(jobs: &[NewJob], most: usize) -> Vec<&[NewJob]> {
    let (mut batches, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (position, job) in jobs.iter().enumerate() {
        let is_full = position - first == most || bytes + job.envelope.len() > MAX_BATCH_BYTES;
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

/// An id somebody chose. Those of a chain's later steps are the chain's to give, and those of what belongs to a run the run's.
fn explicit_id(text: &str) -> Result<JobId, Error> {
    let id = JobId::new(text)?;
    reserved_ids::check_explicit_id(&id)?;
    if id.step() > 0 || text.len() > JobId::MAX_CHAIN_LEN {
        let most = JobId::MAX_CHAIN_LEN;
        return Err(Error::Invalid(format!(
            "job id {text:?} is not valid: it has at most {most} characters and does not end in `~` and a number"
        )));
    }
    Ok(id)
}
