//! Writing many jobs in batches, and what is known of each job after an error.

use std::collections::VecDeque;
use std::fmt;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use crate::name::{JobId, Queue};
use crate::store::{self, Error, NewJob, Store};

/// How many batches are under way at once: while the store writes one, the next is on its way.
const MAX_BATCHES_IN_FLIGHT: usize = 3;

/// A bulk was not made as a whole, or not as safely as was asked for. Jobs that are neither in `made` nor in `unknown`
/// were not made.
#[derive(Debug)]
pub struct BulkError {
    /// How many jobs were to be made.
    pub count: usize,
    /// The jobs that were made, each with the position of its payload.
    pub created: Vec<(usize, JobId)>,
    /// The jobs of which the store did not say whether it made them.
    pub unknown: Vec<(usize, JobId)>,
    /// What went wrong first. [`Error::Unconfirmed`] only if nothing else went wrong: then every job was made.
    pub error: Error,
}

impl BulkError {
    /// The error of a bulk of which nothing was sent.
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

/// For callers that do not look at single jobs. An error that says that nothing was made is kept only if that is so.
impl From<BulkError> for Error {
    fn from(bulk: BulkError) -> Self {
        let is_whole = matches!(bulk.error, Self::Unconfirmed(_)) && bulk.created.len() == bulk.count;
        if is_whole || (bulk.created.is_empty() && bulk.unknown.is_empty()) {
            return bulk.error;
        }
        Self::unanswered(bulk.to_string(), bulk.error)
    }
}

/// Makes jobs, batch by batch. After an error no batch is begun, but those under way are awaited: the store may make them
/// in any case.
pub(super) async fn write(
    store: &dyn Store,
    queue: &Queue,
    batches: Vec<&[NewJob]>,
) -> Result<(), BulkError> {
    let mut end =
        BulkProgress { count: batches.iter().map(|batch| batch.len()).sum(), ..BulkProgress::default() };
    let (mut waiting, mut under_way) = (batches.into_iter(), VecDeque::new());
    let mut answers = FuturesOrdered::new();
    loop {
        while !end.is_over()
            && answers.len() < MAX_BATCHES_IN_FLIGHT
            && let Some(jobs) = waiting.next()
        {
            under_way.push_back(jobs);
            answers.push_back(store.enqueue(store::EnqueueParams { queue, jobs }));
        }
        let (Some(answer), Some(jobs)) = (answers.next().await, under_way.pop_front()) else { break };
        end.record(jobs, answer);
    }
    end.result()
}

/// What became of the batches that were answered, in order.
#[derive(Default)]
struct BulkProgress {
    count: usize,
    answered: usize,
    made: Vec<(usize, JobId)>,
    unknown: Vec<(usize, JobId)>,
    error: Option<Error>,
}

impl BulkProgress {
    fn record(&mut self, batch: &[NewJob], answer: Result<Vec<store::Enqueued>, Error>) {
        let jobs = (self.answered..).zip(batch.iter().map(|job| job.id.clone()));
        self.answered += batch.len();
        match &answer {
            Ok(_) | Err(Error::Unconfirmed(_)) => self.made.extend(jobs),
            Err(Error::Unanswered { .. }) => self.unknown.extend(jobs),
            Err(_) => {}
        }
        if let Err(error) = answer
            && !self.is_over()
        {
            self.error = Some(error);
        }
    }

    /// Whether no batch is to be begun any more. A replica that is away keeps no job from being made.
    fn is_over(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !matches!(error, Error::Unconfirmed(_)))
    }

    fn result(self) -> Result<(), BulkError> {
        let Self { count, made, unknown, error, .. } = self;
        error.map_or(Ok(()), |error| Err(BulkError { count, created: made, unknown, error }))
    }
}
