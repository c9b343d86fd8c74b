//! The handle of a job: wait for its end, read its state, cancel, complete or delete it.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde::de::DeserializeOwned;

use super::{Client, Job};
use crate::dead_letter::DeadLetter;
use crate::job::JobState;
use crate::name::JobId;
use crate::store::{Cancelled, Completed, Deleted, Error, JobInfo, JobRecord};
use crate::wake::CompletionWatch;

/// A job that was enqueued. [`Client::job_handle`] creates one for a job that was enqueued
/// elsewhere.
///
/// A handle of a chain refers to the chain's current job.
pub struct JobHandle<O> {
    client: Client,
    id: JobId,
    kept: bool,
    created: bool,
    output: PhantomData<fn() -> O>,
}

/// Why waiting ended without an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The job does not keep its result.
    #[error("the result of job {0} is not kept: enqueue it with `keep_result`, or set `Job::KEEP_RESULT`")]
    NotKept(JobId),
    /// The job is in the dead letters.
    #[error("job {job} is dead ({reason}): {error}")]
    Dead {
        /// The job.
        job: JobId,
        /// The reason of its death.
        reason: String,
        /// Its last error.
        error: String,
    },
    /// The job was cancelled or discarded.
    #[error("job {0} was cancelled")]
    Cancelled(JobId),
    /// The job is not in the store, or no longer.
    #[error("job {0} is not in the store: it never was, or its record has expired")]
    Gone(JobId),
    /// The job did not end in time.
    #[error("job {0} has not ended yet")]
    TimedOut(JobId),
    /// The output does not match the type.
    #[error("the output of job {0} does not fit")]
    Output(JobId, #[source] serde_json::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl<O> fmt::Debug for JobHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobHandle").field(&self.id).finish()
    }
}

impl<O> Clone for JobHandle<O> {
    fn clone(&self) -> Self {
        let (client, id) = (self.client.clone(), self.id.clone());
        Self { client, id, kept: self.kept, created: self.created, output: PhantomData }
    }
}

impl<O> JobHandle<O> {
    /// The id of the job; of a chain, that of its first job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Whether the job keeps its result, so that it can be awaited.
    pub fn keeps_result(&self) -> bool {
        self.kept
    }

    /// Whether the enqueue created this job; `false` if a job with its id or key existed.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The current state of the job; `None` if it is not in the store. A job that has ended is kept
    /// only if it keeps its result or is dead.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn info(&self) -> Result<Option<JobInfo>, Error> {
        self.client.job_info(&self.id).await
    }

    /// Cancels the job: see [`Client::cancel`].
    ///
    /// # Errors
    /// As [`Client::cancel`].
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have cancelled the job.
    pub async fn cancel(&self) -> Result<Cancelled, Error> {
        self.client.cancel(&self.id).await
    }

    /// Ends the job, of type `J`, as if its handler had returned `output`: see
    /// [`Client::complete`].
    ///
    /// # Errors
    /// As [`Client::complete`].
    ///
    /// # Cancel safety
    /// Safe to call again for a job; a chain may have continued by a dropped call.
    pub async fn complete<J: Job>(&self, output: J::Output) -> Result<Completed, Error> {
        self.client.complete::<J>(&self.id, output).await
    }

    /// Deletes the job's chain with all its data: see [`Client::delete`].
    ///
    /// # Errors
    /// As [`Client::delete`].
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have deleted the chain.
    pub async fn delete(&self) -> Result<Deleted, Error> {
        self.client.delete(&self.id).await
    }
}

impl<O: DeserializeOwned> JobHandle<O> {
    pub(super) fn new(client: Client, id: JobId, kept: bool) -> Self {
        let id = id.chain();
        Self { client, id, kept, created: true, output: PhantomData }
    }

    pub(super) fn existing(self) -> Self {
        Self { created: false, ..self }
    }

    /// Waits for the end of the job and returns its output. Transient errors of the store are
    /// retried.
    ///
    /// # Errors
    /// [`WaitError`], if the job has no output, or not one of this type.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self) -> Result<O, WaitError> {
        self.wait_until(std::future::pending()).await
    }

    /// Like [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`WaitError::TimedOut`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for(&self, timeout: Duration) -> Result<O, WaitError> {
        self.wait_until(self.client.store.clock().sleep(timeout)).await
    }

    async fn wait_until(&self, deadline: impl Future<Output = ()> + Send) -> Result<O, WaitError> {
        if !self.kept {
            return Err(WaitError::NotKept(self.id.clone()));
        }
        // Subscribe before the first read, so that an end in between is not missed.
        let wait_for_record = self.wait_for_record(self.client.watch(&self.id)).boxed();
        match select(wait_for_record, Box::pin(deadline)).await {
            Either::Left((record, _)) => self.decode(&record?),
            Either::Right(_) => Err(WaitError::TimedOut(self.id.clone())),
        }
    }

    async fn wait_for_record(&self, mut watch: CompletionWatch) -> Result<JobRecord, WaitError> {
        loop {
            match self.read_end(self.client.store.get_job(&self.id).await) {
                Some(end) => return end,
                None => watch.next().await,
            }
        }
    }

    /// The end of the job, if it has ended; `None` if it has to be read again.
    fn read_end(&self, found: Result<Option<JobInfo>, Error>) -> Option<Result<JobRecord, WaitError>> {
        match found {
            Err(error) if error.is_transient() => None,
            Err(error) => Some(Err(error.into())),
            Ok(None) => Some(Err(WaitError::Gone(self.id.clone()))),
            Ok(Some(JobInfo { record: Some(record), .. })) => Some(Ok(record)),
            Ok(Some(info)) if info.state == JobState::Dead => Some(Err(self.death(info))),
            Ok(Some(_)) => None,
        }
    }

    fn death(&self, info: JobInfo) -> WaitError {
        match DeadLetter::read(info.data) {
            Ok(letter) => WaitError::Dead {
                job: self.id.clone(),
                reason: letter.reason.to_string(),
                error: letter.last_error.unwrap_or_default(),
            },
            Err(error) => WaitError::Store(error.into()),
        }
    }

    fn decode(&self, record: &JobRecord) -> Result<O, WaitError> {
        if record.state == JobState::Cancelled {
            return Err(WaitError::Cancelled(self.id.clone()));
        }
        let output: &[u8] = if record.output.is_empty() { b"null" } else { &record.output };
        serde_json::from_slice(output).map_err(|error| WaitError::Output(self.id.clone(), error))
    }
}
