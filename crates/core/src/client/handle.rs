//! The handle of a job, to wait for its end.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use serde::de::DeserializeOwned;

use super::Client;
use crate::dead_letter::DeadLetter;
use crate::job::JobState;
use crate::name::JobId;
use crate::store::{Error, JobInfo, JobRecord};
use crate::wake::CompletionWatch;

/// A job that was enqueued.
pub struct JobHandle<O> {
    client: Client,
    id: JobId,
    kept: bool,
    created: bool,
    output: PhantomData<fn() -> O>,
}

/// Why waiting ended without an output.
#[derive(Debug, thiserror::Error)]
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

impl<O> JobHandle<O> {
    /// The id of the job; of a chain, that of its first job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Whether the job keeps its result, so that it can be awaited.
    pub fn keeps_result(&self) -> bool {
        self.kept
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

    /// Whether the enqueue created this job; `false` if a job with its id existed.
    pub fn created(&self) -> bool {
        self.created
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
