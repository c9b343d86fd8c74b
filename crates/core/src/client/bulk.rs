//! Enqueueing of many jobs in batches, and the state of each job after an error.

use std::collections::VecDeque;
use std::fmt;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use crate::name::{JobId, Queue};
use crate::store::{self, Error, NewJob, Store};

/// How many batches are in flight: while the store writes one, the next is already sent.
const MAX_BATCHES_IN_FLIGHT: usize = 3;

/// A bulk was not created completely, or not as durably as requested. Jobs that are neither in
/// `created` nor in `unknown` were not created.
#[derive(Debug)]
#[non_exhaustive]
pub struct BulkError {
    /// The number of jobs in the bulk.
    pub count: usize,
    /// The created jobs, each with the position of its payload.
    pub created: Vec<(usize, JobId)>,
    /// The jobs for which the store's answer was lost.
    pub unknown: Vec<(usize, JobId)>,
    /// The first error. [`Error::Unconfirmed`] only if there was no other; then all jobs were
    /// created.
    pub error: Error,
}

impl BulkError {
    /// The error of a bulk before anything was sent.
    pub(super) fn before_all(count: usize, error: Error) -> Self {
        Self { count, created: Vec::new(), unknown: Vec::new(), error }
    }
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} jobs were made", self.created.len(), self.count)?;
        match self.unknown.len() {
            0 => Ok(()),
            more => write!(f, ", and up to {more} more may have been"),
        }
    }
}

impl std::error::Error for BulkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// For callers that do not need single jobs. An error that implies that nothing was created is kept
/// only if that is true.
impl From<BulkError> for Error {
    fn from(bulk: BulkError) -> Self {
        let is_whole = matches!(bulk.error, Self::Unconfirmed(_)) && bulk.created.len() == bulk.count;
        if is_whole || (bulk.created.is_empty() && bulk.unknown.is_empty()) {
            return bulk.error;
        }
        Self::unanswered(bulk.to_string(), bulk.error)
    }
}

/// Enqueues batches in order. After an error no further batch is sent, but those in flight are
/// awaited, because the store may create them anyway.
pub(super) async fn write(
    store: &dyn Store,
    queue: &Queue,
    batches: Vec<&[NewJob]>,
) -> Result<(), BulkError> {
    let mut progress =
        BulkProgress { count: batches.iter().map(|batch| batch.len()).sum(), ..BulkProgress::default() };
    let (mut unsent, mut in_flight) = (batches.into_iter(), VecDeque::new());
    let mut answers = FuturesOrdered::new();
    loop {
        while !progress.is_failed()
            && answers.len() < MAX_BATCHES_IN_FLIGHT
            && let Some(jobs) = unsent.next()
        {
            in_flight.push_back(jobs);
            answers.push_back(store.enqueue(store::EnqueueParams { queue, jobs }));
        }
        let (Some(answer), Some(jobs)) = (answers.next().await, in_flight.pop_front()) else { break };
        progress.record(jobs, answer);
    }
    progress.result()
}

/// The results of the answered batches, in order.
#[derive(Default)]
struct BulkProgress {
    count: usize,
    answered: usize,
    created: Vec<(usize, JobId)>,
    unknown: Vec<(usize, JobId)>,
    error: Option<Error>,
}

impl BulkProgress {
    fn record(&mut self, batch: &[NewJob], answer: Result<Vec<store::Enqueued>, Error>) {
        let jobs = (self.answered..).zip(batch.iter().map(|job| job.id.clone()));
        self.answered += batch.len();
        match &answer {
            Ok(_) | Err(Error::Unconfirmed(_)) => self.created.extend(jobs),
            Err(Error::Unanswered { .. }) => self.unknown.extend(jobs),
            Err(_) => {}
        }
        if let Err(error) = answer
            && !self.is_failed()
        {
            self.error = Some(error);
        }
    }

    /// Whether to send no further batch. An unconfirmed replication does not prevent jobs from
    /// being created.
    fn is_failed(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !matches!(error, Error::Unconfirmed(_)))
    }

    fn result(self) -> Result<(), BulkError> {
        let Self { count, created, unknown, error, .. } = self;
        error.map_or(Ok(()), |error| Err(BulkError { count, created, unknown, error }))
    }
}
