//! Completion of jobs by callers other than their worker.

use super::{Client, Job};
use crate::backoff::Backoff;
use crate::chain::{Completion, IntoCompletion};
use crate::envelope::Envelope;
use crate::job::JobState;
use crate::name::JobId;
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::settle::{Change, DecideContext, Outcome, decide};
use crate::store::reserved_ids::check_removal;
use crate::store::{CompleteParams, Completed, Error, JobInfo};

/// How often to try again when the chain moves on while its job is being completed.
const MAX_COMPLETE_TRIES: usize = 8;

impl Client {
    /// Ends a job of type `J` as if its handler had returned `output`, for example after an
    /// approval or a webhook. A worker that runs the job loses its lease.
    ///
    /// `job` may be the id of a chain; then its current job is completed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the job is of another kind or belongs to a run.
    ///
    /// # Cancel safety
    /// A dropped call may have completed the job. A second call for a chain would complete its next job:
    /// name the step (`ID~2`) to be safe.
    pub async fn complete<J: Job>(&self, job: &JobId, output: J::Output) -> Result<Completed, Error> {
        self.complete_untyped(job, Some(J::KIND), output.into_completion(true)?).await
    }

    /// Ends a job whose kind is known only at run time; with `kind`, only if it is of that kind.
    ///
    /// A call without an answer is repeated for the same step. So a chain that has continued
    /// meanwhile is not continued twice.
    ///
    /// # Errors
    /// As [`complete`](Self::complete). [`Error::Unavailable`] if the chain keeps moving on.
    ///
    /// # Cancel safety
    /// As [`complete`](Self::complete).
    pub async fn complete_untyped(
        &self,
        job: &JobId,
        kind: Option<&str>,
        completion: Completion,
    ) -> Result<Completed, Error> {
        let clock = self.store.clock();
        for _ in 0..MAX_COMPLETE_TRIES {
            let found = until_answered(clock, || self.store.get_job(job)).await?;
            let Some(info) = found else { return Ok(Completed::NotFound) };
            let done = match self.decide_completion(job, &info, kind, completion.clone())? {
                Err(completed) => completed,
                Ok(change) => {
                    let complete = || self.store.complete(CompleteParams { job: &info.job, change: &change });
                    let Answered { value, after_unknown } = repeat_until_answered(clock, complete).await?;
                    if after_unknown {
                        return Ok(completed_before(value, &change));
                    }
                    value
                }
            };
            // The chain has moved on since it was read, and the caller meant its current job.
            let moved = job.step() == 0 && done == Completed::Ended(JobState::Done) && info.record.is_none();
            if !moved {
                return Ok(done);
            }
        }
        let message = format!("job {job} moves too fast to be completed");
        Err(Error::Unavailable { message, source: None })
    }

    /// The change that completes a job as it was read, or the reason why it cannot be completed.
    /// For callers that complete it in a transaction; they apply the change to [`JobInfo::job`].
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn decide_completion(
        &self,
        job: &JobId,
        info: &JobInfo,
        kind: Option<&str>,
        completion: Completion,
    ) -> Result<Result<Change, Completed>, Error> {
        let envelope = match self.completable(job, info, kind)? {
            Ok(envelope) => envelope,
            Err(completed) => return Ok(Err(completed)),
        };
        let outcome = match completion {
            Completion::Output(output) => Outcome::Done(output),
            Completion::Continue(next) => {
                next.check(self.limits.payload)?;
                Outcome::Continue(next)
            }
        };
        let now = self.store.clock().now();
        Ok(Ok(decide(&envelope, outcome, DecideContext { now, backoff: Backoff::DEFAULT, random: 0.0 })))
    }

    /// The envelope of a job that can be completed, or the reason why it cannot.
    fn completable(
        &self,
        job: &JobId,
        info: &JobInfo,
        kind: Option<&str>,
    ) -> Result<Result<Envelope, Completed>, Error> {
        if info.state.is_final() {
            return Ok(Err(Completed::Ended(info.state)));
        }
        if job.step() > 0 && info.job != *job {
            return Ok(Err(Completed::Ended(JobState::Done)));
        }
        check_removal(&info.job)?;
        let envelope = Envelope::read(info.data.clone())?;
        match kind {
            Some(kind) if envelope.kind().as_str() != kind => {
                let (job, actual) = (&info.job, envelope.kind());
                Err(Error::Invalid(format!("job {job} is a `{actual}`, not a `{kind}`")))
            }
            _ => Ok(Ok(envelope)),
        }
    }
}

/// The result of a completion whose first call got no answer. If the job has ended as intended, or
/// is gone, that call did it.
fn completed_before(found: Completed, change: &Change) -> Completed {
    let keeps_record = matches!(change, Change::Finish(Some(_)));
    match found {
        Completed::Ended(JobState::Done) => Completed::Yes,
        Completed::NotFound if !keeps_record => Completed::Yes,
        found => found,
    }
}
